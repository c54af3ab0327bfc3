import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { loginsIn } from './docker-config.ts';

const auth = (text: string): string => Buffer.from(text).toString('base64');
const read = (config: object) => loginsIn(JSON.stringify(config), 'config.json');

test('logins are by registry as references name it, whichever way they are written', () => {
  const auths = {
    'registry.example.com': { auth: auth('deployer:s3cret:with:colons') },
    '10.0.0.5:5000': { username: 'me', password: 'p' },
    'https://index.docker.io/v1/': { auth: auth('hub:x') },
  };
  assert.deepEqual(read({ auths, credHelpers: {}, HttpHeaders: { 'User-Agent': 'x' } }), {
    'registry.example.com': { username: 'deployer', password: 's3cret:with:colons' },
    '10.0.0.5:5000': { username: 'me', password: 'p' },
    'index.docker.io': { username: 'hub', password: 'x' },
  });
  assert.deepEqual(read({}), {});
});

test('what holds no login is refused with what to do, and without a password', () => {
  const entry = { auth: auth('deployer:s3cret') };
  const refused: [string, RegExp][] = [
    ['s3cret {', /no config\.json as "docker login" writes it: log in anew/],
    [JSON.stringify({ auths: [entry] }), /no config\.json/],
    [JSON.stringify({ auths: { a: entry }, credsStore: 'desktop' }), /credential helper "desktop".*DOCKER_CONFIG=DIR/],
    [JSON.stringify({ auths: { a: entry }, credHelpers: { 'r.example.com': 'gcloud' } }), /credential helper "gcloud"/],
    [
      JSON.stringify({ auths: { 'r.example.com/team': entry } }),
      /a login for "r\.example\.com\/team", which is no registry/,
    ],
    [
      JSON.stringify({ auths: { 'r.example.com': {} } }),
      /nothing for r\.example\.com where a runner needs a name and a/,
    ],
    [JSON.stringify({ auths: { r: { auth: auth('<token>:'), identitytoken: 's3cret' } } }), /a token for r where/],
  ];
  for (const [text, pattern] of refused) {
    const isRight = (error: unknown): boolean =>
      hasCode(error, 'invalid') && pattern.test(error.message) && !error.message.includes('s3cret');
    assert.throws(() => loginsIn(text, 'config.json'), isRight, text);
  }
});
