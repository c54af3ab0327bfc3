import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import { hideSecrets, hostOf, parseDrainUrl } from './drain-url.ts';

const basic = (pair: string): string => `Basic ${Buffer.from(pair).toString('base64')}`;

test('a drain is a syslog host, with or without TLS, or an https address', () => {
  const syslog = { kind: 'syslog', host: 'logs.example.com' };
  assert.deepEqual(parseDrainUrl('syslog+tcp://logs.example.com'), { ...syslog, port: 514, isSecure: false });
  assert.deepEqual(parseDrainUrl('syslog+tls://logs.example.com'), { ...syslog, port: 6514, isSecure: true });
  assert.deepEqual(parseDrainUrl('syslog+tls://logs.example.com:99/'), { ...syslog, port: 99, isSecure: true });
  assert.deepEqual(parseDrainUrl('syslog+tcp://[2001:db8::1]:5514'), {
    kind: 'syslog',
    host: '2001:db8::1',
    port: 5514,
    isSecure: false,
  });
  assert.equal(hostOf(parseDrainUrl('syslog+tls://Lögs.example.com')), 'xn--lgs-sna.example.com');
  const odd = parseDrainUrl('https://me:pa%ss@logs.example.com/');
  assert.deepEqual(odd, { kind: 'http', url: 'https://logs.example.com/', authorization: basic('me:pa%ss') });
  assert.deepEqual(parseDrainUrl('https://a%40b:se%3Acret@logs.example.com/in?key=1'), {
    kind: 'http',
    url: 'https://logs.example.com/in?key=1',
    authorization: basic('a@b:se:cret'),
  });
});

test('anything else is refused with what to write instead, and without its secrets', () => {
  const refusals: readonly (readonly [string, RegExp])[] = [
    ['logs.example.com:514', /is no drain/],
    ['nonsense', /not a URL; write syslog\+tcp:\/\/HOST:PORT, syslog\+tls/],
    ['ftp://u:hunter2@logs.example.com', /ftp is not known; write syslog/],
    ['syslog://logs.example.com', /syslog is not known/],
    ['syslog+udp://logs.example.com', /syslog\+udp is not known/],
    ['syslog+tcp://', /names no host/],
    ['syslog+tcp://logs.example.com/path', /a host and a port only/],
    ['syslog+tls://me:hunter2@logs.example.com', /a host and a port only/],
    ['https://logs.example.com/#x', /never sent/],
    ['syslog+tcp://logs.example.com:0', /no port 0/],
    ['syslog+tcp://logs%00.example.com', /no name of a host/],
  ];
  for (const [text, why] of refusals) {
    assert.throws(
      () => parseDrainUrl(text),
      (error) =>
        error instanceof FlynnError &&
        error.code === 'invalid' &&
        why.test(error.message) &&
        !/hunter2/.test(error.message),
      text,
    );
  }
});

test('what is shown of an address holds no secret', () => {
  assert.equal(hideSecrets('syslog+tls://logs.example.com:6514'), 'syslog+tls://logs.example.com:6514');
  assert.equal(
    hideSecrets('https://user:hunter2@logs.example.com/v1/0123456789abcdef0123/in?token=hunter2&x=1'),
    'https://***@logs.example.com/v1/***/in?token=***&x=***',
  );
});
