/** Do the hosts agree about the time? */
import type { Found } from './finding.ts';

/** A look at another host's clock: it said `theirMs` at some moment between the two of ours. */
export type ClockSample = Readonly<{ hostId: string; sentMs: number; receivedMs: number; theirMs: number }>;

const marks = { warningMs: 1_000, criticalMs: 60_000 } as const;

/**
 * Hosts whose clock is off by more than can be put down to the way there and back. Off from what most hosts say: of two
 * that differ nobody knows which is right, so both are named.
 */
export function clockFindings(samples: readonly ClockSample[]): Found[] {
  const offsets = samples.map(({ hostId, sentMs, receivedMs, theirMs }) => ({
    hostId,
    offsetMs: theirMs - (sentMs + receivedMs) / 2,
    doubtMs: Math.max(0, receivedMs - sentMs) / 2,
  }));
  const sorted = offsets.toSorted((a, b) => a.offsetMs - b.offsetMs);
  const middle = middleOf(sorted.map(({ offsetMs }) => offsetMs));
  const isEven = samples.length === 2;
  return offsets.flatMap(({ hostId, offsetMs, doubtMs }): Found[] => {
    const [first, last] = [sorted[0]?.offsetMs ?? 0, sorted.at(-1)?.offsetMs ?? 0];
    const off = isEven ? (offsetMs === first ? first - last : last - first) : offsetMs - middle;
    const certainMs = Math.abs(off) - doubtMs;
    if (certainMs < marks.warningMs) return [];
    const than = isEven ? 'the other host’s' : 'those of most hosts';
    const seconds = (Math.abs(off) / 1_000).toFixed(1);
    return [
      {
        severity: certainMs >= marks.criticalMs ? 'critical' : 'warning',
        subject: `host ${hostId}`,
        matter: 'clock',
        what: `its clock is ${seconds} s ${off > 0 ? 'ahead of' : 'behind'} ${than}`,
        why: 'logs and events come in a wrong order, cron runs at wrong times, and far off certificates are not valid',
        remedy: `on ${hostId}: timedatectl set-ntp true, then "timedatectl timesync-status" or "chronyc tracking"`,
      },
    ];
  });
}

function middleOf(sorted: readonly number[]): number {
  const half = Math.floor(sorted.length / 2);
  const upper = sorted[half] ?? 0;
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[half - 1] ?? upper)) / 2;
}
