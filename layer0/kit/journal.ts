/** What a daemon says, when systemd's journal takes it: with its priority, so that `journalctl -p warning` finds it. */
import { fstatSync } from 'node:fs';
import { pino } from 'pino';

/** Of the journal, which takes them as syslog numbers them from the head of a line, and off it. */
const priorities: Readonly<Record<string, number>> = { trace: 7, debug: 7, info: 6, warn: 4, error: 3, fatal: 2 };
const info = 30;

/** Where pino leaves the level of what it writes next. */
type Leveled = { lastLevel: number; write: (line: string) => void };

/** Undefined where the descriptor is not the journal's: what stands ahead of a line would stay there. */
export function journalAt(
  env: Readonly<Record<string, string | undefined>>,
  fd = 1,
): pino.DestinationStream | undefined {
  if (!isJournal(env['JOURNAL_STREAM'], fd)) return undefined;
  const destination = pino.destination({ dest: fd, sync: true });
  const journal: Leveled = {
    lastLevel: info,
    write: (line) => {
      const level = pino.levels.labels[journal.lastLevel] ?? 'info';
      destination.write(`<${priorities[level] ?? 6}>${line}`);
    },
  };
  return Object.assign(journal, { [Symbol.for('pino.metadata')]: true });
}

/** As systemd says it: device and inode, for a child may have been given another output. */
function isJournal(stream: string | undefined, fd: number): boolean {
  if (stream === undefined) return false;
  const { dev, ino } = fstatSync(fd, { bigint: true });
  return stream === `${dev}:${ino}`;
}
