/** What the engine is told to add: never an address, however that is written. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { nameInAddress, proxiesOf } from './added-addresses.ts';
import { withoutBuildKit } from './buildkit.ts';
import { type Staged, withCopyStages } from './copy-stages.ts';
import { withPlainBases } from './dockerfile.ts';

const args = { URL: 'http://10.1.1.1/a', S: 's', EMPTY: '' };

function stagedOf(given: string, proxies: Record<string, string> = {}): Staged {
  const { dockerfile, documents } = withoutBuildKit(given);
  const bases = new Map([['x', { FROM_IMAGE: 'https://x.example.com/of-image' }]]);
  const fetching = { build: 'b1', proxies };
  return withCopyStages(withPlainBases(dockerfile, {}), { documents, args, bases, fetching });
}

const head = 'FROM x\nARG URL S EMPTY\nENV HTTP=http:\n';
const addresses: string[] = [
  'ADD http://10.1.1.1/a /x',
  'add   https://x.example.com/a /x',
  'ADD $URL /x',
  'ADD http${S}://x.example.com/a /x',
  'ADD ${EMPTY}http://x.example.com/a /x',
  'ADD $HTTP//x.example.com/a /x',
  'ADD $FROM_IMAGE /x',
  'ADD \\http://x.example.com/a /x',
  'ADD "http://x.example.com/a" /x',
  "ADD h'ttp:'//x.example.com/a /x",
  'ADD ["http://x.example.com/a", "/x"]',
  'ADD ["\\u0068ttp://x.example.com/a", "/x"]',
  'ADD ["\\"http://x.example.com/a\\"", "/x"]',
  'ADD --chown=1 ["$URL", "/x"]',
  'ADD htt\\\np://x.example.com/a /x',
  'ADD HTTP://x.example.com/a /x',
];
for (const line of addresses) {
  test(`${JSON.stringify(line)}: a step asks for it, and the engine copies the file`, () => {
    const { dockerfile } = stagedOf(`${head}${line}\n`);
    assert.doesNotMatch(dockerfile, /^\s*ADD/im);
    assert.match(dockerfile, /^RUN : 'b1' && mkdir [^\n]*\$\(curl [^\n]* --url [^\n]*$/m);
    assert.match(dockerfile, /^COPY --from=flynn-copy-1 (?:--chown=1 )?\["\/copied\/addresses\/1\/[\w-]+","\/x"\]$/m);
  });
}

const files: [line: string, expected: string][] = [
  ['ADD a b/*.tar /x/', 'ADD a b/*.tar /x/'],
  ['ADD a $HOME/x', 'ADD a $HOME/x'],
  ['ADD $S/a /x', 'ADD ["s/a","/x"]'],
  ['ADD $NONE/a$S /x', 'ADD ["/$NONE/a$S","/x"]'],
  ['ADD ["http://x.example.com/a", "/x"] junk', 'ADD ["[http://x.example.com/a,","/x]","junk"]'],
  ['ADD \\$URL "/a\'b" /x/', `ADD ["\\\\$URL","/a\\\\'b","/x/"]`],
  ['ADD ./http://x /x', 'ADD ./http://x /x'],
];
for (const [line, expected] of files) {
  test(`${JSON.stringify(line)}: the engine takes it for files alone`, () => {
    const { dockerfile } = stagedOf(`FROM y\nARG S URL\n${line}\n`);
    assert.equal(dockerfile.split('\n')[2], expected);
    assert.doesNotMatch(dockerfile, /curl/);
  });
}

test('of files and addresses each is added in its turn', () => {
  const { dockerfile, words } = stagedOf('FROM x\nADD a.tar http://h/b%20c http://h/d e /to/\nRUN x\n', {
    https_proxy: "http://p'",
  });
  const lines = dockerfile.split('\n');
  assert.deepEqual(lines.slice(0, 1), ['FROM flynn/slug-runner AS flynn-copy-1']);
  assert.match(
    lines[1] ?? '',
    /mkdir -p '\/copied\/addresses\/1' && at="\$\(https_proxy="\$\(printf %b 'http:\/\/p\\0047'\)" curl -SsfL /,
  );
  assert.deepEqual(lines.slice(3), [
    'FROM x',
    'ADD ["a.tar","/to/"]',
    'COPY --from=flynn-copy-1 ["/copied/addresses/1/b c","/copied/addresses/2/d","/to/"]',
    'ADD ["e","/to/"]',
    'RUN x',
    '',
  ]);
  assert.equal(words().failure('dockerfile parse error line 8: x'), 'dockerfile parse error line 3: x');
  assert.deepEqual(proxiesOf({ HTTPS_PROXY: 'a', no_proxy: 'b', PATH: 'c' }), { HTTPS_PROXY: 'a', no_proxy: 'b' });
});

test('an address that says no name can be a file, and is no file in a folder', () => {
  assert.match(
    stagedOf('FROM x\nADD http://h/ /index.html\n').dockerfile,
    /\["\/copied\/addresses\/1\/__unnamed__","\/index.html"\]/,
  );
  for (const line of ['ADD http://h/ /x/', 'ADD http://h/a%2Fb /x/', 'ADD http://h/a a /x', 'ADD http://h/a'])
    assert.throws(
      () => stagedOf(`FROM x\n${line}\n`),
      (error) => hasCode(error, 'invalid') && /line 2: ADD: /.test(error.message),
      line,
    );
  assert.equal(nameInAddress('http://h/a/b.tar.gz?c=/d#e/f'), 'b.tar.gz');
  assert.equal(nameInAddress('http://h/%'), '%');
  assert.equal(nameInAddress('http://'), undefined);
});
