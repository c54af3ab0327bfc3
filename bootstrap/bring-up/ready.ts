/** Is this machine ready to be a host? If not, what stands in the way is told. */
import { styleText } from 'node:util';
import { readFacts } from '../machine/facts.ts';
import { type Problem, type Scope, judge } from '../machine/preflight.ts';
import { rangeWarnings } from '../machine/range-use.ts';
import type { Cluster, Options } from '../settings.ts';
import { leasedText } from '../steps/host.ts';

type Judging = { scope: Scope; problems?: readonly Problem[]; hasJoined?: boolean };

export async function isReady(
  options: Options,
  cluster: Cluster,
  { scope, problems: known = [], hasJoined = false }: Judging,
): Promise<boolean> {
  const facts = await readFacts(options, cluster);
  const problems = [...known, ...judge(facts, cluster, scope)];
  if (problems.length === 0) {
    if (hasJoined) for (const line of rangeWarnings(facts, cluster)) process.stdout.write(`${line}\n`);
    return true;
  }
  const lines = problems.map(({ what, remedy }) => `  ${styleText('red', '✖')} ${what}\n    → ${remedy}`);
  const changed = hasJoined ? `Nothing was changed here. ${leasedText(cluster.hostId)}` : 'Nothing was changed';
  process.stderr.write(`This machine is not ready to be a host. ${changed}.\n\n${lines.join('\n')}\n`);
  return false;
}
