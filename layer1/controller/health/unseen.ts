/** What could not be looked at for so long that somebody has to see to it? Nobody is told of what a check would find that fails. */
import type { Finding, Unknown } from '@flynn/host-agent/doctor/finding';

/** A host that is started anew, or a part that is deployed, is no finding. */
const unseenMs = 10 * 60_000;
/** Beside whatever the check finds, once it can be carried out. */
export const unseenMatter = 'unseen';

export class Unseen {
  #sinceMs = new Map<string, number>();

  /** To be called with each look of every minute: what is known again is forgotten. */
  note(unknown: readonly Unknown[], now: number): void {
    const known = this.#sinceMs;
    // It may have been noted by a clock that was ahead.
    this.#sinceMs = new Map(unknown.map((one) => [keyOf(one), Math.min(known.get(keyOf(one)) ?? now, now)]));
  }

  /** Of what a look could not see: a finding of each that none could see for long. */
  findings(unknown: readonly Unknown[], now: number): Finding[] {
    const first = new Map(unknown.toReversed().map((one) => [keyOf(one), one]));
    return [...first].flatMap(([key, one]) => {
      const sinceMs = this.#sinceMs.get(key) ?? now;
      return now - sinceMs < unseenMs ? [] : [findingOf(one, new Date(sinceMs).toISOString())];
    });
  }
}

function findingOf({ check, subject, why }: Unknown, since: string): Finding {
  const common = { check, subject, matter: unseenMatter, since };
  if (check === 'hosts') {
    return {
      ...common,
      severity: 'critical',
      what: `no host's agent tells how the hosts are: ${why}`,
      why: 'nobody is told of hosts that are lost, of disks that are full, nor of anything else that agents see',
      remedy: 'flynn-host doctor on a host tells how they are; does the controller reach port 1113 of the hosts?',
    };
  }
  return {
    ...common,
    severity: 'warning',
    what: `the check ${check} fails: ${why}`,
    why: 'what it would find is told to nobody',
    remedy: subject.startsWith('host ')
      ? 'flynn-host doctor there tells more; this ends once it can be carried out'
      : 'flynn -a controller log -t web tells more; this ends once it can be carried out',
  };
}

function keyOf({ check, subject }: Unknown): string {
  return `${check} ${subject}`;
}
