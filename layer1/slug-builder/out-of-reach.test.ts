import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OutOfReach, withoutRegistry } from './out-of-reach.ts';

test('a name that could not be looked up is told, however it was said, with the proxy that may be missing', () => {
  const said: [line: string, name: string][] = [
    ['npm error request to https://r.example/x failed, reason: getaddrinfo ENOTFOUND r.example', 'r.example'],
    ['getaddrinfo EAI_AGAIN registry.example.com', 'registry.example.com'],
    ["fatal: unable to access 'https://g.example/x/': Could not resolve host: g.example", 'g.example'],
    ['curl: (6) Could not resolve host: c.example', 'c.example'],
    ["Err:1 http://d.example trixie InRelease Temporary failure resolving 'd.example'", 'd.example'],
    ['NameResolutionError("...: Failed to resolve \'p.example\' ([Errno -2] Name or service not known)")', 'p.example'],
    ['Could not reach host b.example. Check your network connection and try again.', 'b.example'],
    ['dial tcp: lookup proxy.golang.example on 10.0.0.1:53: no such host', 'proxy.golang.example'],
    ['Caused by: java.net.UnknownHostException: m.example', 'm.example'],
    ['{:failed_connect, [{:to_address, {~c"hex.example", 443}}, {:inet, [:inet], :nxdomain}]}', 'hex.example'],
  ];
  for (const [line, name] of said) {
    const reach = new OutOfReach();
    reach.hear(`       ${line}\n`);
    const hint = reach.hint({});
    assert.ok(hint.startsWith(`\nThe build could not look up ${name}. If the hosts`), `${line}: ${hint}`);
    assert.match(hint, /flynn runner env set https_proxy=/);
    assert.match(reach.hint({ https_proxy: 'http://p' }), /https_proxy is set, and whatever asked does not go by it/);
  }
});

test('what failed long before the end, or by something else, is not told', () => {
  const reach = new OutOfReach();
  assert.equal(reach.hint({}), '');
  reach.hear('error TS2304: Cannot find name x');
  assert.equal(reach.hint({}), '');
  reach.hear('ENOTFOUND telemetry.example');
  for (let line = 0; line < 51; line += 1) reach.hear('compiled');
  assert.equal(reach.hint({}), '');
});

test('an image that the engine does not get is one that can be pushed', () => {
  const said = 'Get "https://r.example/v2/": dial tcp: lookup r.example on 10.0.0.1:53: no such host';
  assert.match(withoutRegistry(said, 'Step 1/2 : FROM node:22-alpine AS build'), /"flynn image push node:22-alpine"/);
  assert.match(withoutRegistry(said), /"flynn image push IMAGE".*FROM flynn\/image:NUMBER/);
  assert.match(withoutRegistry('pull access denied for x, repository does not exist'), /image push/);
  assert.equal(withoutRegistry("The command '/bin/sh -c false' returned a non-zero code: 1"), '');
});
