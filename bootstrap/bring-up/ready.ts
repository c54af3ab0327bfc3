/** Is this machine ready to be a host? If not, what stands in the way is told. */
import { styleText } from 'node:util';
import type { Inspection } from '@flynn/controller/backup/inspection';
import { readFacts } from '../machine/facts.ts';
import { type Problem, type Scope, judge } from '../machine/preflight.ts';
import { rangeWarnings } from '../machine/range-use.ts';
import { judgeRoom } from '../restore/room.ts';
import type { Cluster, Options } from '../settings.ts';
import { leasedText } from '../steps/host.ts';

type Judging = {
  scope: Scope;
  problems?: readonly Problem[];
  /** Of a cluster that comes back. */
  inspection?: Inspection | undefined;
  hasJoined?: boolean;
};

export async function isReady(
  options: Options,
  cluster: Cluster,
  { scope, problems: known = [], inspection, hasJoined = false }: Judging,
): Promise<boolean> {
  const facts = await readFacts(options, cluster);
  const room = inspection === undefined ? [] : judgeRoom(facts, inspection);
  const problems = [...known, ...judge(facts, cluster, scope), ...room];
  if (problems.length === 0) {
    if (hasJoined) for (const line of rangeWarnings(facts, cluster)) process.stdout.write(`${line}\n`);
    return true;
  }
  const lines = problems.map(({ what, remedy }) => `  ${styleText('red', '✖')} ${what}\n    → ${remedy}`);
  const changed = hasJoined ? `Nothing was changed here. ${leasedText(cluster.hostId)}` : 'Nothing was changed';
  process.stderr.write(`This machine is not ready to be a host. ${changed}.\n\n${lines.join('\n')}\n`);
  return false;
}
