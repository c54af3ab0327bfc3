/** Whether this host may start its member of etcd, and let it run: beside another machine that is the host, it may not. */
import type { Logger } from '@flynn/kit/log';
import type { Config } from '../config.ts';
import type { OwnRuns } from '../fencing/own-runs.ts';
import type { Rivals } from '../fencing/rivals.ts';
import { ownAddresses } from '../hosts/own-addresses.ts';
import { etcdJob } from './etcd-resident.ts';
import { mayMemberStart } from './left-behind.ts';

/** Of each verdict, what people are told. */
const notStarted = {
  'left behind': 'the other hosts have a store that was made anew without this host: its former member is not started',
  taken:
    'another agent lives as this host, by what the other hosts have: its member of etcd is not started, which may be a copy of the one there',
  aside:
    'another machine was seen to be this host: its member of etcd is not started, and "flynn-host doctor" says what to do',
};

export type MemberGuard = Readonly<{
  /** Asked each time before a resident job is started. */
  mayStart: (name: string, signal: AbortSignal) => Promise<boolean>;
  /** Asked of one that runs. */
  mayRun: (name: string) => Promise<boolean>;
}>;

/** `absenceMs`: for how long this host had no agent before this one. Of other resident jobs it has nothing to say. */
export function memberGuard(deps: {
  config: Config;
  runs: OwnRuns;
  rivals: Rivals;
  absenceMs: number;
  log: Logger;
}): MemberGuard {
  const { config, log, ...asking } = deps;
  let told: string | undefined;
  return {
    async mayStart(name, signal) {
      if (name !== etcdJob) return true;
      const verdict = await mayMemberStart(config, { ...asking, log, signal });
      // It is asked again every few seconds.
      if (verdict !== 'start' && verdict !== told) log.warn(notStarted[verdict]);
      told = verdict;
      return verdict === 'start';
    },
    // On a copy of the host's disk the member is that of another machine, by whose address the others know it.
    async mayRun(name) {
      if (name !== etcdJob) return true;
      const here = await ownAddresses();
      return here.has(config.FLYNN_ADDRESS) || (await asking.rivals.before(here)) === undefined;
    },
  };
}
