import assert from 'node:assert/strict';
import { stripVTControlCharacters } from 'node:util';
import { test } from 'node:test';
import { notReadyText } from './ready.ts';

const taken = {
  what: 'port 80, for HTTP, is used by nginx (pid 812)',
  remedy: 'stop it, or choose another port: the same command again with FLYNN_HTTP_PORT=8080',
};
const small = { what: '1.0 GB of memory; a host needs 2 GB', remedy: 'use a larger machine' };

test('what is in the way is told with its remedy, and by sudo where a setting has to stand', () => {
  const told = (isBySudo: boolean, problems = [small, taken]): string =>
    stripVTControlCharacters(
      notReadyText(problems, { changed: 'Nothing was changed', ...(isBySudo ? { bySudo: 'npm run up' } : {}) }),
    );
  assert.match(
    told(false),
    /^This machine is not ready to be a host\. Nothing was changed\.\n\n {2}✖ 1\.0 GB.*\n {4}→ use.*\n {2}✖ port 80/,
  );
  assert.match(told(true), /stand behind it: sudo FLYNN_HTTP_PORT=8080 npm run up\n$/);
  const ofTls = { what: 'port 443', remedy: 'choose another port: the same command again with FLYNN_HTTPS_PORT=8443' };
  assert.match(told(true, [taken, ofTls]), /: sudo FLYNN_HTTP_PORT=8080 FLYNN_HTTPS_PORT=8443 npm run up\n$/);
  const ofFolder = { what: 'a folder', remedy: 'with FLYNN_STATE_DIR=/data/my-flynn; or another' };
  assert.match(told(true, [ofFolder]), /: sudo FLYNN_STATE_DIR=\/data\/my-flynn npm run up\n$/);
  const moved = { what: 'its address', remedy: 'or: FLYNN_ADDRESS=192.0.2.7 npm run up (docs/operating.md)' };
  assert.match(told(true, [moved]), /: sudo FLYNN_ADDRESS=192\.0\.2\.7 npm run up\n$/);
  const gone = { what: 'its unit', remedy: 'mount it. Is it gone: FLYNN_CLUSTER=prod npm run down -- --force' };
  assert.doesNotMatch(told(true, [gone]), /sudo/);
  assert.doesNotMatch(told(false), /sudo/);
  assert.doesNotMatch(told(true, [small]), /sudo/);
});
