/** What is said where lines of a log that is followed may be missing, with the command that reads those of them that are kept. */
import { quoteForShell } from '../output.ts';

/** Which lines somebody follows, as they asked for them. */
export type Followed = Readonly<{
  app: string;
  type?: string | undefined;
  job?: string | undefined;
  release?: string | undefined;
  search?: string | undefined;
}>;

export function gapText(from: string, to: string, { app, type, job, release, search }: Followed): string {
  const options = Object.entries({ '-a': app, '-t': type, '-j': job, '--release': release, '--search': search });
  const given = [...options, ['--since', from] as const, ['--until', to] as const];
  const words = given.flatMap(([name, value]) => (value === undefined ? [] : [name, quoteForShell(value)]));
  return `lines between ${from} and ${to} may be missing: flynn log ${words.join(' ')} reads what is kept of them`;
}
