/**
 * `node layer1/router/hostile/fuzz.ts --minutes 20 [--seed N] [--lanes 4] [--image IMAGE]`: a router, llhttp, nginx and HAProxy
 * read the same mutated messages. Ends with 1 if we passed on what another would have split differently.
 */
import { randomInt } from 'node:crypto';
import { parseArgs } from 'node:util';
import type { Owner } from '../testing.ts';
import { openSubject } from './fuzz-fixture.ts';
import { fuzz } from './fuzzer.ts';
import { openJudges } from './proxies.ts';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '1' },
    seed: { type: 'string', default: String(randomInt(2 ** 31)) },
    lanes: { type: 'string', default: '4' },
    image: { type: 'string' },
  },
});
const seed = Number(values.seed);
const endsMs = performance.now() + Number(values.minutes) * 60_000;
const tellEveryMs = 60_000;

await using ending = new AsyncDisposableStack();
const owner: Owner = { after: (end) => ending.defer(end) };
process.stdout.write(`seed ${seed}, ${values.lanes} lanes\n`);
let messages = 0;
const told = setInterval(() => process.stdout.write(`${messages} messages\n`), tellEveryMs);
const reports = await Promise.all(Array.from({ length: Number(values.lanes) }, (_, lane) => run(lane)));
clearInterval(told);

const findings = Map.groupBy(
  reports.flatMap((report) => report.findings),
  // Without what it was exactly: that is in the messages.
  ({ kind }) => kind.replace(/ ".*$/s, ''),
);
const laxer = reports.flatMap((report) => Object.entries(report.laxer));
const refusedBy = Map.groupBy(laxer, ([name]) => name);
for (const [name, counts] of refusedBy) {
  process.stdout.write(`passed on and refused by ${name}: ${counts.reduce((sum, [, count]) => sum + count, 0)}\n`);
}
for (const [kind, of] of findings) {
  process.stdout.write(`FOUND ${of.length}: ${kind}\n`);
  for (const { message } of of.slice(0, 5)) process.stdout.write(`  ${JSON.stringify(message)}\n`);
}
const passedOn = reports.reduce((sum, report) => sum + report.passedOn, 0);
const { user, system } = process.cpuUsage();
const cpuMinutes = ((user + system) / 60e6).toFixed(1);
process.stdout.write(
  `${messages} messages, ${passedOn} passed on, ${findings.size} kinds of findings, ${cpuMinutes} CPU minutes\n`,
);
process.exitCode = findings.size > 0 ? 1 : 0;

/** A lane has a router and judges of its own, so that each message is alone there. Every other one has a route for all hosts. */
async function run(lane: number): ReturnType<typeof fuzz> {
  const { judges } = ending.use(await openJudges(values.image === undefined ? {} : { image: values.image }));
  return fuzz({
    subject: await openSubject(owner, { hosts: lane % 2 === 0 ? 'one host' : 'all hosts' }),
    judges,
    seed: seed + lane,
    isOver: () => {
      messages += 1;
      return performance.now() > endsMs;
    },
  });
}
