/** The corpus against a running router: what it refuses, what it passes on, and that a backend can read that in one way only. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setUp, settled, track } from '../testing.ts';
import { corpus } from './corpus.ts';
import type { Case } from './corpus.ts';
import { hostLine } from './corpus-parts.ts';
import { drivers } from './drivers.ts';
import { Recorder } from './recorder.ts';
import type { Recorded } from './recorder.ts';
import { talk } from './talk.ts';
import type { Talk } from './talk.ts';

/** Said behind every case: who took the case for longer than it was swallows this, and who took it for shorter answers it twice. */
const sentinel = `GET /sentinel HTTP/1.1\r\n${hostLine}Connection: close\r\n\r\n`;
const last = JSON.stringify({ method: 'GET', target: '/sentinel', body: '' });
const refusal = /^HTTP\/1\.1 (?:400|404|405|413|414|417|431|501|505) /;

/** Why it is not what must be; undefined when all is well. */
function faultOf({ must }: Case, { answer, isClosed }: Talk, recorded: Recorded): string | undefined {
  if (recorded.problems.length > 0) return `the backend got ${recorded.problems.join()}`;
  const unmarked = recorded.requests.filter(
    ({ fields }) => fields.filter(([name]) => name === 'x-request-id').length !== 1,
  );
  if (unmarked.length > 0) return `the backend got what the router never saw as a request: ${unmarked[0]?.target}`;
  if (!isClosed) return `it never ended; answered so far: ${JSON.stringify(answer)}`;
  const got = recorded.requests.map(({ method, target, body }) => JSON.stringify({ method, target, body })).toSorted();
  const told = `answered ${firstLine(answer)}, passed on ${got.join()}`;
  // After a refusal of what has a clear end a router may go on with what is behind that.
  const isRefused = refusal.test(answer) && got.every((each) => each === last);
  if (must === 'refused') return isRefused ? undefined : told;
  if ('either' in must && isRefused) return undefined;
  const wanted = ('either' in must ? must.either : must.passed).map((each) => JSON.stringify(each));
  // Some ask for the connection's end themselves.
  const isWhole = [wanted, [...wanted, last]].some((each) => each.toSorted().join() === got.join());
  return isWhole && /^HTTP\/1\.1 [12]00 /.test(answer) ? undefined : told;
}

const firstLine = (answer: string) => JSON.stringify(answer.slice(0, answer.indexOf('\r\n')));

/** At places that differ from case to case and are the same in every run. */
function cut(bytes: string, seed: number): string[] {
  const places = [7, 13, 29].map((step) => ((seed + 1) * step) % bytes.length).toSorted((a, b) => a - b);
  return [0, ...places].map((from, index) => bytes.slice(from, places[index] ?? bytes.length));
}

const ways: readonly [how: string, pieces: (bytes: string, seed: number) => string[]][] = [
  ['in one piece', (bytes) => [bytes]],
  ['in pieces', cut],
];

for (const { name: driver, takesLeniently } of drivers) {
  for (const [how, pieces] of ways) {
    test(`${driver}: every message of the corpus, ${how}, is refused or reaches a backend in one form`, async (t) => {
      const { plane, router, port } = await setUp(t, {}, driver);
      const recorder = new Recorder();
      const backend = await track(t, recorder.server);
      plane.up('web', backend.address);
      await settled(router, [backend.address]);
      const faults: string[] = [];
      for (const [index, each] of corpus.entries()) {
        if (takesLeniently.some((start) => each.name.startsWith(start))) continue;
        const said = await talk(port, pieces(each.bytes + sentinel, index), { quietMs: 10_000 });
        const fault = faultOf(each, said, recorder.take());
        if (fault !== undefined) faults.push(`${each.name}: ${fault}`);
      }
      assert.deepEqual(faults, []);
    });
  }
}

test('the corpus names each message once', () => {
  const names = corpus.map(({ name }) => name);
  assert.deepEqual(
    names.filter((name, index) => names.indexOf(name) !== index),
    [],
  );
});
