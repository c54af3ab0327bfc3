import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { type Call, linearize } from './checker.ts';
import {
  type RegisterInput,
  type RegisterOutput,
  type SetInput,
  type SetOutput,
  register,
  setOfNames,
} from './models.ts';

type RegisterCall = Call<RegisterInput, RegisterOutput>;

const call = <I, O>(client: string, startedMs: number, endedMs: number, input: I, output?: O): Call<I, O> => ({
  client,
  startedMs,
  endedMs,
  input,
  output,
});
const write = (client: string, from: number, to: number, value: number): RegisterCall =>
  call(client, from, to, { kind: 'write', value }, { isDone: true });
const lostWrite = (client: string, from: number, to: number, value: number): RegisterCall =>
  call(client, from, to, { kind: 'write', value });
const read = (client: string, from: number, to: number, value: number): RegisterCall =>
  call(client, from, to, { kind: 'read' }, { value });
const swap = (client: string, from: number, to: number, expected: number, value: number, isDone = true): RegisterCall =>
  call(client, from, to, { kind: 'swap', expected, value }, { isDone });

const histories: [string, boolean, RegisterCall[]][] = [
  ['nothing at all', true, []],
  ['one after the other', true, [write('a', 0, 1, 1), read('b', 2, 3, 1)]],
  ['a read during a write sees the old value', true, [write('a', 0, 9, 1), read('b', 2, 3, 0)]],
  ['or the new one', true, [write('a', 0, 9, 1), read('b', 2, 3, 1)]],
  ['but not the new one and then the old', false, [write('a', 0, 9, 1), read('b', 2, 3, 1), read('c', 4, 5, 0)]],
  ['a read after a write sees the old value', false, [write('a', 0, 1, 1), read('b', 2, 3, 0)]],
  ['a value that nobody wrote', false, [write('a', 0, 1, 1), read('b', 0, 3, 2)]],
  ['two writes at once, seen in one order', true, [write('a', 0, 5, 1), write('b', 0, 5, 2), read('c', 6, 7, 1)]],
  [
    'and seen in both orders, by readers that saw each other end',
    false,
    [write('a', 0, 5, 1), write('b', 0, 5, 2), read('c', 6, 7, 1), read('d', 8, 9, 2)],
  ],
  ['two swaps from one value both say they did it', false, [swap('a', 0, 5, 0, 1), swap('b', 0, 5, 0, 2)]],
  ['one of them says so', true, [swap('a', 0, 5, 0, 1), swap('b', 0, 5, 0, 2, false)]],
  ['a swap is refused without a reason', false, [swap('a', 0, 5, 0, 1, false)]],
  ['a write without an answer is never seen', true, [lostWrite('a', 0, 5, 1), read('b', 6, 7, 0)]],
  ['or long after', true, [lostWrite('a', 0, 5, 1), read('b', 6, 7, 0), read('b', 80, 90, 1)]],
  ['but not before it began', false, [read('b', 0, 1, 1), lostWrite('a', 2, 5, 1)]],
  [
    'and not, seen once, undone',
    false,
    [lostWrite('a', 0, 5, 1), read('b', 6, 7, 0), read('b', 8, 9, 1), read('b', 10, 11, 0)],
  ],
];

for (const [name, isLinearizable, history] of histories) {
  test(`${name}: ${isLinearizable ? 'in order' : 'refused'}`, () => {
    assert.equal(linearize(register(0), history).isLinearizable, isLinearizable);
  });
}

test('a refusal says how far it came and what could not follow', () => {
  const verdict = linearize(register(0), [write('a', 0, 1, 1), read('b', 2, 3, 0)]);
  assert.ok(!verdict.isLinearizable);
  assert.deepEqual(verdict.order, [write('a', 0, 1, 1)]);
  assert.deepEqual(verdict.stuck, [read('b', 2, 3, 0)]);
});

const change = (kind: 'add' | 'remove', from: number, to: number, name: string): Call<SetInput, SetOutput> =>
  call('a', from, to, { kind, name }, 'done');
const list = (from: number, to: number, ...names: string[]): Call<SetInput, SetOutput> =>
  call('b', from, to, { kind: 'list' }, names);

test('a set: what was added and not removed is listed, by who began later', () => {
  const isRight = (...history: Call<SetInput, SetOutput>[]) => linearize(setOfNames, history).isLinearizable;
  const both = [change('add', 0, 1, 'x'), change('add', 0, 5, 'y')];
  assert.equal(isRight(...both, list(2, 3, 'x'), list(6, 7, 'y', 'x')), true);
  assert.equal(isRight(...both, list(2, 3, 'y'), list(6, 7, 'y', 'x')), false, 'what was added before is not listed');
  assert.equal(isRight(...both, list(6, 7, 'x')), false, 'a name was lost');
  assert.equal(isRight(...both, change('remove', 6, 7, 'x'), list(8, 9, 'x', 'y')), false, 'a name came back');
  assert.equal(isRight(...both, change('remove', 6, 9, 'x'), list(7, 8, 'x', 'y'), list(10, 11, 'y')), true);
});

type Doing = { client: number; input: RegisterInput; beforeMs: number; afterMs: number };
const doings: fc.Arbitrary<Doing[]> = fc.array(
  fc.record({
    client: fc.nat(4),
    input: fc.oneof(
      fc.constant<RegisterInput>({ kind: 'read' }),
      fc.record({ kind: fc.constant('write' as const), value: fc.nat(3) }),
      fc.record({ kind: fc.constant('swap' as const), expected: fc.nat(3), value: fc.nat(3) }),
    ),
    beforeMs: fc.nat(30),
    afterMs: fc.nat(30),
  }),
  { maxLength: 30 },
);

/** What a register answers that really does one after the other, each 10 ms after the one before. */
function done(list: readonly Doing[]): RegisterCall[] {
  let state = 0;
  return list.map(({ client, input, beforeMs, afterMs }, place) => {
    const atMs = 10 * place;
    const isDone = input.kind === 'write' || (input.kind === 'swap' && input.expected === state);
    const output: RegisterOutput = input.kind === 'read' ? { value: state } : { isDone };
    if (isDone) state = input.value;
    return call(`c${client}`, atMs - beforeMs, atMs + afterMs, input, output);
  });
}

const answered = (
  { client, startedMs, endedMs, input }: RegisterCall,
  output: RegisterOutput | undefined,
): RegisterCall => call(client, startedMs, endedMs, input, output);

test('what a register did is in order, in whatever order it is told, and with answers that were lost', () => {
  fc.assert(
    fc.property(doings, fc.array(fc.boolean()), (list, isLost) => {
      const history = done(list).map((one, at) => (isLost[at] ? answered(one, undefined) : one));
      assert.ok(linearize(register(0), history.toReversed()).isLinearizable);
    }),
    { numRuns: 300 },
  );
});

test('it agrees with trying every order', () => {
  const answers = fc.array(fc.option(fc.oneof(fc.record({ value: fc.nat(3) }), fc.record({ isDone: fc.boolean() }))));
  fc.assert(
    fc.property(doings, answers, (list, madeUp) => {
      const history = done(list.slice(0, 6)).map((one, at) => answered(one, madeUp[at] ?? one.output));
      assert.equal(linearize(register(0), history).isLinearizable, isInSomeOrder(history, 0));
    }),
    { numRuns: 1_000 },
  );
});

function isInSomeOrder(left: readonly RegisterCall[], state: number): boolean {
  if (left.length === 0) return true;
  return left.some((one, at) => {
    const others = left.toSpliced(at, 1);
    if (others.some(({ endedMs }) => endedMs < one.startedMs)) return false;
    const after = register(0).step(state, one.input, one.output);
    return after !== undefined && isInSomeOrder(others, after);
  });
}

test('a long history of five clients is checked at once, and one that cannot be decided says so', () => {
  const steps = Array.from({ length: 2_000 }, (_, at): Doing => {
    const input: RegisterInput = at % 3 === 0 ? { kind: 'write', value: at } : { kind: 'read' };
    return { client: at % 5, input, beforeMs: 20, afterMs: 20 };
  });
  assert.ok(linearize(register(0), done(steps)).isLinearizable);
  assert.throws(() => linearize(register(0), done(steps), { maxStates: 100 }), { code: 'exhausted' });
});
