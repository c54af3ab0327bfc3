/**
 * The watchdog: a shell beside the agent that kills containers when the agent does not extend their deadline, because it is
 * frozen, dead or hanging, or because the engine is. It needs neither of them: it kills processes by their control group.
 */
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, open, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { FlynnError, hasErrno, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';

/**
 * It sleeps up to the deadline, which moves on, or back to no less than a host's lease; three seconds at most. `fence` holds
 * the deadline, in hundredths of a second of /proc/uptime (0: none), and below it the containers' ids. A later watchdog writes
 * its own pid, and this one leaves; so it does when the folder is gone.
 */
const script = String.raw`
cd "$1" || exit 1
echo $$ >watchdog.pid
echo -1000 2>/dev/null >/proc/$$/oom_score_adj
while read -r owner <watchdog.pid && [ "$owner" = $$ ]; do
  deadline=0 ids=
  { read -r deadline; while read -r id; do ids="$ids|$id"; done; } <fence
  read -r uptime _ </proc/uptime
  left=$((deadline - \${uptime%.*}\${uptime#*.}))
  pause=1
  if [ "$deadline" -gt 0 ] && [ -n "$ids" ]; then
    if [ "$left" -gt 0 ]; then
      [ "$left" -gt 300 ] && left=300
      pause=$((left / 100)).$(printf %02d $((left % 100)))
    else
      for file in $(grep -lsE "\${ids#?}" /proc/[0-9]*/cgroup); do
        pid=\${file#/proc/}
        kill -KILL "\${pid%/cgroup}" && pause=0.2
      done
    fi
  fi
  sleep $pause
done 2>/dev/null
`.replaceAll('\\${', '${');

const containerId = /^[0-9a-f]{12,64}$/;

/**
 * INVARIANTS. Whoever is listed has no process left a moment after the deadline, unless the deadline was moved on before. The
 * watchdog outlives the agent that started it; the next agent's takes its place.
 */
export class Watchdog {
  readonly #dir: string;
  readonly #log: Logger;
  #process: ChildProcess | undefined;
  #written = '';
  /** What the agent before this one left: its deadline, in hundredths of a second since the machine's start, and for whom. */
  #inherited: { deadline: number; ids: readonly string[] } | undefined;
  #last: Promise<void> = Promise.resolve();

  constructor(options: { dir: string; log: Logger }) {
    this.#dir = options.dir;
    this.#log = options.log;
  }

  /** `deadlineMs` is of performance.now(). Resolves once it holds. Several at once take effect in the order of the calls. */
  guard(deadlineMs: number | undefined, containerIds: readonly string[]): Promise<void> {
    return this.#inTurn(() => this.#guard(deadlineMs, containerIds));
  }

  /**
   * What an earlier agent left has no more time than that, and never more than it was given. Before the first `guard`, and
   * before anything by which it may be given away sooner; without effect afterwards.
   */
  limit(deadlineMs: number): Promise<void> {
    return this.#inTurn(async () => {
      const inherited = this.#inherited;
      if (inherited === undefined) return;
      await this.#write(Math.min(inherited.deadline, await uptimeOf(deadlineMs)), inherited.ids);
    });
  }

  #inTurn(act: () => Promise<void>): Promise<void> {
    const before = this.#last;
    this.#last = Promise.allSettled([before]).then(act);
    return this.#last;
  }

  async #guard(deadlineMs: number | undefined, containerIds: readonly string[]): Promise<void> {
    this.#inherited = undefined;
    const ids = containerIds.filter((id) => containerId.test(id)).toSorted();
    // Without anything to guard, or a time up to which, there is no need for a process.
    if (ids.length === 0 && this.#written === '') return;
    if (deadlineMs === undefined && this.#process === undefined) return;
    // Rounded, or a file would be written for every millisecond between two looks at the clocks.
    const key = `${deadlineMs === undefined ? 0 : Math.floor(deadlineMs / 50)} ${ids.join(' ')}`;
    if (key === this.#written) return this.#ensureRunning();
    await this.#write(deadlineMs === undefined ? 0 : await uptimeOf(deadlineMs), ids);
    this.#written = key;
  }

  async #write(deadline: number, ids: readonly string[]): Promise<void> {
    await mkdir(this.#dir, { recursive: true, mode: 0o700 });
    const file = join(this.#dir, 'fence');
    const text = [deadline, ...ids, ''].join('\n');
    try {
      // Not to be on disk, only to be whole: after a power cut there is nothing to guard.
      await writeFile(`${file}.new`, text, { mode: 0o600 });
      await rename(`${file}.new`, file);
    } catch (error) {
      if (!hasErrno(error, 'ENOSPC', 'EDQUOT')) throw error;
      await rm(`${file}.new`, { force: true });
      await overwrite(file, text);
    }
    // Not before there is a folder for it, and something to read.
    this.#ensureRunning();
  }

  /** What an earlier agent left to be guarded goes on being so. */
  resume(): void {
    const file = join(this.#dir, 'fence');
    const [deadline = '0', ...ids] = existsSync(file) ? readFileSync(file, 'utf8').split('\n') : [];
    if (deadline === '0') return;
    this.#inherited = { deadline: Number(deadline), ids: ids.filter((id) => containerId.test(id)) };
    this.#ensureRunning();
  }

  #ensureRunning(): void {
    if (this.#process !== undefined) return;
    const child = spawn('sh', ['-c', script, 'flynn-watchdog', this.#dir], {
      detached: true,
      cwd: '/',
      stdio: 'ignore',
    });
    this.#process = child;
    const end = (reason: string) => {
      if (this.#process !== child) return;
      this.#process = undefined;
      this.#log.warn(`the watchdog ended (${reason}): it is started again`);
    };
    child.once('error', (error) => end(messageOf(error)));
    child.once('exit', (code, signal) => end(String(signal ?? code)));
    child.unref();
  }
}

/**
 * On a disk without room: jobs are not to be killed for that. Whoever reads meanwhile finds a time between the former and the
 * new one, both of as many digits.
 */
async function overwrite(file: string, text: string): Promise<void> {
  await using handle = await open(file, 'r+');
  await handle.write(text, 0);
  await handle.truncate(Buffer.byteLength(text));
}

/** The same moment in hundredths of a second since the machine's start: the clock a shell can read, and nobody can set. */
async function uptimeOf(ms: number): Promise<number> {
  const text = await readFile('/proc/uptime', 'utf8');
  const leftMs = ms - performance.now();
  const seconds = Number(text.split(' ')[0]);
  if (!Number.isFinite(seconds)) throw new FlynnError('internal', `/proc/uptime is not readable: ${text}`);
  return Math.max(1, Math.round(seconds * 100 + leftMs / 10));
}
