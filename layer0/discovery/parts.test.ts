import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LiveIdentity } from '@flynn/kit/identity';
import { partUrl } from './parts.ts';

const identity = (isEverybodyKnown?: boolean): LiveIdentity => ({
  current: { trusted: '', certificate: '', privateKey: '' },
  ...(isEverybodyKnown === undefined ? {} : { isEverybodyKnown }),
  onChange: () => () => undefined,
});

const address = '100.100.0.2:80';
const group = { 'flynn.group': 'g' };
const known = { ...group, 'flynn.identity': 'controller' };

test('a part is asked in clear if its agent says it has no certificate, and by who has none: by nobody else', () => {
  const cases: [attributes: Record<string, string> | undefined, LiveIdentity | undefined, scheme: string][] = [
    [known, undefined, 'http'],
    [{}, undefined, 'http'],
    [known, identity(), 'https'],
    [known, identity(true), 'https'],
    [group, identity(), 'http'],
    [group, identity(false), 'http'],
    [group, identity(true), 'https'],
    [{}, identity(), 'https'],
    [{ app: 'controller' }, identity(false), 'https'],
    [undefined, identity(), 'https'],
  ];
  for (const [attributes, own, scheme] of cases) {
    const place = { address, ...(attributes === undefined ? {} : { attributes }) };
    assert.equal(partUrl(place, own), `${scheme}://${address}`, JSON.stringify([attributes, own?.isEverybodyKnown]));
  }
});
