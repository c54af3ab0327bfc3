/** Is this machine ready to be a host? If not, what stands in the way is told. */
import { styleText } from 'node:util';
import type { Inspection } from '@flynn/controller/backup/inspection';
import { readFacts } from '../machine/facts.ts';
import { type Problem, type Scope, judge } from '../machine/preflight.ts';
import { rangeWarnings } from '../machine/range-use.ts';
import { commands } from '../origin.ts';
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
  const changed = hasJoined ? `Nothing was changed here. ${leasedText(cluster.hostId)}` : 'Nothing was changed';
  const isBySudo = (process.env['SUDO_USER'] ?? '') !== '';
  const command = hasJoined || scope === 'joining' ? commands.join : commands.up;
  process.stderr.write(notReadyText(problems, { changed, ...(isBySudo ? { bySudo: command } : {}) }));
  return false;
}

/** As `FLYNN_HTTP_PORT=8080`, and what a remedy has of a command behind it. */
const settingIn = /\b(FLYNN_[A-Z_]+=[\w.:/-]+)(?: ((?:npm|flynn-host) .*))?/g;

/** For people. `bySudo`: the command, where it was run so: a setting in front of sudo does not get here. */
export function notReadyText(
  problems: readonly Problem[],
  { changed, bySudo }: { changed: string; bySudo?: string },
): string {
  const lines = problems.map(({ what, remedy }) => `  ${styleText('red', '✖')} ${what}\n    → ${remedy}\n`);
  const settings = bySudo === undefined ? [] : settingsFor(bySudo, problems);
  const hint =
    settings.length === 0
      ? ''
      : `\nsudo passes no settings on, so they stand behind it: sudo ${settings.join(' ')} ${bySudo}\n`;
  return `This machine is not ready to be a host. ${changed}.\n\n${lines.join('')}${hint}`;
}

/** Those in front of another command are not for this one. */
function settingsFor(command: string, problems: readonly Problem[]): string[] {
  const found = problems.flatMap(({ remedy }) => [...remedy.matchAll(settingIn)]);
  const own = found.filter(([, , other = command]) => other.startsWith(command));
  return [...new Set(own.map(([, setting = '']) => setting))];
}
