import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { routeAccessSchema } from '@flynn/controller/routes/settings';
import type { z } from 'zod';
import { RouteGate } from './access.ts';
import { challengeFor, readBasic } from './credentials.ts';
import type { Credentials } from './credentials.ts';
import type { Checked } from './passwords.ts';
import { World, ended, recordOf } from './testing.ts';

const hash = `$scrypt$ln=14,r=8,p=1$${'a'.repeat(22)}$${'b'.repeat(43)}`;
const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`;
const users = { ann: { hash }, ben: { hash } };
const allow = ['192.0.2.0/24'];
const inside = '192.0.2.7';
const outside = '198.51.100.1';

type Access = z.input<typeof routeAccessSchema>;
const gateOf = (access: Access) => new RouteGate(routeAccessSchema.parse(access), 'shop');

/** `open` is everybody's password. */
function looking() {
  const asked: { client: string; password: string; hash: string }[] = [];
  return {
    asked,
    async check(one: { client: string; password: string; hash: string }): Promise<Checked> {
      asked.push(one);
      return { is: one.password === 'open' && one.hash === hash ? 'right' : 'wrong' };
    },
  };
}

function credentials(text: string): Credentials {
  const read = readBasic(basic(text));
  if (read === undefined) throw new Error(`${text} cannot be read`);
  return read;
}

describe('what a client says of who it is', () => {
  test('is read as RFC 7617 has it, and as nothing else', () => {
    assert.deepEqual([credentials('ann:a:b').user, credentials('ann:a:b').password], ['ann', 'a:b']);
    assert.equal(readBasic(`basic   ${Buffer.from('ann:ü').toString('base64')} `)?.password, 'ü');
    assert.deepEqual(credentials('ann:x').digest, credentials('ann:x').digest);
    assert.notDeepEqual(credentials('ann:x').digest, credentials('ann:y').digest);
    const two = `${basic('ann:x')}, ${basic('ben:y')}`;
    for (const field of [undefined, '', 'Basic', 'Bearer eDp5', 'Basic !!!', basic('nocolon'), two]) {
      assert.equal(readBasic(field), undefined, field);
    }
    assert.equal(readBasic(basic(`ann:${'x'.repeat(1_000)}`)), undefined);
  });

  test('is asked for in the name of the host, if that is one', () => {
    assert.equal(challengeFor('a.test')[1], 'Basic realm="a.test", charset="UTF-8"');
    assert.equal(challengeFor('a"x')[1], 'Basic realm="this address", charset="UTF-8"');
  });
});

describe('a route lets in', () => {
  test('whom its users and addresses say, both or any of them, and without either nobody', () => {
    const ann = basic('ann:open');
    const cases: readonly [Access, string, string | undefined, string][] = [
      [{}, inside, ann, 'address-refused'],
      [{ allow }, inside, undefined, 'in'],
      [{ allow }, outside, ann, 'address-refused'],
      [{ users }, outside, undefined, 'password-wanted'],
      [{ users }, outside, ann, 'unsure'],
      [{ users, allow }, outside, ann, 'address-refused'],
      [{ users, allow }, inside, undefined, 'password-wanted'],
      [{ users, allow }, inside, ann, 'unsure'],
      [{ users, allow, needs: 'any' }, inside, undefined, 'in'],
      [{ users, allow, needs: 'any' }, inside, 'Bearer x', 'in'],
      [{ users, allow, needs: 'any' }, outside, undefined, 'password-wanted'],
      [{ users, allow, needs: 'any' }, outside, ann, 'unsure'],
    ];
    for (const [access, address, authorization, expected] of cases) {
      assert.equal(gateOf(access).judge(address, authorization).is, expected, JSON.stringify([access, address]));
    }
  });

  test('whose password was right before without another look, and of wrong ones knows the same again', async () => {
    const gate = gateOf({ users });
    const passwords = looking();
    const judge = (text: string) => gate.judge(outside, basic(text)).is;
    assert.equal((await gate.check(credentials('ann:open'), 'c', passwords)).is, 'right');
    assert.equal((await gate.check(credentials('ann:shut'), 'c', passwords)).is, 'wrong');
    assert.equal((await gate.check(credentials('eve:open'), 'c', passwords)).is, 'wrong');
    assert.equal(
      passwords.asked[2]?.hash,
      `$scrypt$ln=14,r=8,p=1$${'a'.repeat(22)}$${'A'.repeat(43)}`,
      'no user costs as much',
    );
    assert.deepEqual(['ann:open', 'ann:shut', 'ann:other', 'ben:open', 'eve:open'].map(judge), [
      'in',
      'password-wanted',
      'unsure',
      'unsure',
      'password-wanted',
    ]);
    for (let n = 0; n < 300; n += 1) await gate.check(credentials(`ann:${n}`), 'c', passwords);
    assert.equal(judge('ann:open'), 'in', 'wrong ones push out no right one');
  });

  test('several that ask at once after one look of each client', async () => {
    const gate = gateOf({ users });
    const passwords = looking();
    const clients = ['c', 'c', 'c', 'd'];
    await Promise.all(clients.map((client) => gate.check(credentials('ann:open'), client, passwords)));
    assert.deepEqual(
      passwords.asked.map(({ client }) => client),
      ['c', 'd'],
    );
  });
});

describe('a request at such a route', () => {
  const authorization = basic('ann:open');

  test('has no backend before its password is known to be right, and is answered in place of one if it is not', async () => {
    const world = new World({ passwords: looking() });
    await world.serve({ http: { access: { users } } });
    const wrong = world.exchange({ fields: { authorization: basic('ann:shut') } });
    assert.equal(await wrong.pick(), undefined);
    const { status, code, fields } = wrong.answerFor('no-backends');
    assert.deepEqual([status, code], [401, 'password-wanted']);
    assert.match(recordOf(fields)['www-authenticate'] ?? '', /^Basic realm="app\.test"/);
    wrong.end(ended(401));
    const right = world.exchange({ fields: { authorization } });
    assert.equal(right.removedFields.has('authorization'), false);
    assert.notEqual(await right.pick(), undefined);
    assert.equal(right.removedFields.has('authorization'), true);
    right.end(ended(200));
    const known = world.exchange({ fields: { authorization } });
    assert.equal(known.removedFields.has('authorization'), true);
    known.end(ended(200));
    assert.deepEqual(world.counters.refusals, { 'password-wanted': 1 });
    assert.doesNotMatch(world.lines.join('\n'), /shut|open|YW5u/);
  });

  test('is told to wait where passwords were wrong too often, or too many are looked at', async () => {
    const found: Checked[] = [{ is: 'too-often', waitMs: 5_500 }, { is: 'busy' }];
    const check = async (): Promise<Checked> => found.shift() ?? { is: 'wrong' };
    const world = new World({ passwords: { check } });
    await world.serve({ http: { access: { users } } });
    const answered: unknown[] = [];
    for (const _each of [1, 2]) {
      const exchange = world.exchange({ fields: { authorization } });
      assert.equal(await exchange.pick(), undefined);
      const { status, code, fields } = exchange.answerFor('no-backends');
      answered.push([status, code, recordOf(fields)['retry-after']]);
      exchange.end(ended(status));
    }
    assert.deepEqual(answered, [
      [429, 'password-tried-too-often', '6'],
      [503, 'busy', '1'],
    ]);
  });

  test('is not let in by what was right before the password changed, and is by what was while all else does', async () => {
    const passwords = looking();
    const world = new World({ passwords });
    const access = { users };
    await world.serve({ http: { access } });
    const ask = async () => {
      const exchange = world.exchange({ fields: { authorization } });
      await exchange.pick();
      exchange.end(ended(200));
    };
    await ask();
    await world.serve({ http: { access, sticky: true } });
    await ask();
    assert.equal(passwords.asked.length, 1);
    const other = hash.replaceAll('b', 'c');
    await world.serve({ http: { access: { users: { ann: { hash: other } } } } });
    await ask();
    assert.deepEqual([passwords.asked.length, passwords.asked[1]?.hash], [2, other]);
  });

  test('keeps what it says to the app where an address lets it in, but the password of a browser that knows one', async () => {
    const world = new World({ passwords: looking() });
    await world.serve({ http: { access: { users, allow, needs: 'any' } } });
    const removes = (field: string) => {
      const exchange = world.exchange({ from: inside, fields: { authorization: field } });
      exchange.end(ended(200));
      return exchange.removedFields.has('authorization');
    };
    assert.deepEqual(
      [removes('Bearer token'), removes(basic('someone:x')), removes(authorization)],
      [false, false, true],
    );
  });

  test('counts for limits of the route once its password is known to be right, and only while it is there', async () => {
    const looks: (() => void)[] = [];
    const known = looking();
    const passwords = {
      async check(asked: Parameters<typeof known.check>[0]): Promise<Checked> {
        await new Promise<void>((resolve) => looks.push(resolve));
        return known.check(asked);
      },
    };
    const world = new World({ passwords });
    await world.serve({ http: { access: { users }, limits: { connections: 1 } } });
    const begin = (text: string) => world.exchange({ fields: { authorization: basic(text) } });
    const endLooks = () => looks.splice(0).forEach((end) => end());
    const first = begin('ann:open');
    const picked = first.pick();
    const gone = ['ann:shut', 'ben:open'].map(begin);
    const answers = gone.map(async (exchange) => exchange.pick());
    for (const exchange of gone) exchange.end(ended(0));
    endLooks();
    assert.notEqual(await picked, undefined);
    assert.deepEqual(await Promise.all(answers), [undefined, undefined]);
    const full = world.ask({ fields: { authorization } });
    assert.equal('answer' in full && full.answer.code, 'busy');
    const wrong = begin('eve:shut');
    const refused = wrong.pick();
    endLooks();
    assert.equal(await refused, undefined);
    assert.equal(wrong.answerFor('no-backends').code, 'password-wanted', 'it is told of no limit');
    for (const exchange of [wrong, first]) exchange.end(ended(200));
    const next = begin('ann:open');
    assert.notEqual(await next.pick(), undefined, 'nobody else is there any more');
    next.end(ended(200));
  });

  test('counts for no limit of the route if it is refused, goes to https first, and is told of maintenance first', async () => {
    const world = new World({ passwords: looking() });
    const http = { access: { users }, limits: { requestsPerSecond: 1, burst: 1 }, https: { redirect: true } };
    await world.serve({ http });
    const code = (isTls: boolean) => {
      const verdict = world.ask({ isTls });
      return 'answer' in verdict ? `${verdict.answer.status} ${verdict.answer.code}` : 'in';
    };
    assert.deepEqual([code(false), code(true), code(true)], ['308 ', '401 password-wanted', '401 password-wanted']);
    await world.serve({ http: { ...http, maintenance: {} } });
    assert.equal(code(true), '503 maintenance');
    await world.serve({ http: { ...http, maintenance: { allow: [], isGuard: true } } });
    assert.equal(code(true), '401 password-wanted', 'what closes it for versions before is no maintenance');
  });
});
