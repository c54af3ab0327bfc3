/** Watches one role of a running job: in discovery from its first good answer on, and not after as many bad ones as it may have. */
import { pause } from '@flynn/kit/clock';
import { messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { withdraw } from '../discovery/announcer.ts';
import type { Announcer, Instance } from '../discovery/announcer.ts';
import { probe, steadyWaitMs } from './health.ts';
import type { CheckedRole } from './health.ts';

type Holding = Readonly<{
  isHeld: boolean;
  /** Bad answers in a row. */
  refusals: number;
}>;

const notHeld: Holding = { isHeld: false, refusals: 0 };

/** Whoever asks for the one that has a role waits for nobody: one good answer is enough each time. */
function judgeRole({ isHeld, refusals }: Holding, isGood: boolean, threshold: number): Holding {
  if (isGood) return { isHeld: true, refusals: 0 };
  return { isHeld: isHeld && refusals + 1 < threshold, refusals: refusals + 1 };
}

export type RoleWatch = Readonly<{
  role: CheckedRole;
  /** The job as it is announced under the role's name; its address is where the role is announced. */
  instance: Instance;
  /** Where the check looks, unless it says another port. */
  address: string;
  /** An agent before this one may have announced it. */
  mayBeAnnounced: boolean;
  announcer: Announcer;
  /** Whether the job has it by what was seen last: after each look. */
  onLook?: ((isHeld: boolean) => void) | undefined;
  log: Logger;
}>;

/**
 * Until the signal aborts; what is announced then is left so. While discovery is away it is looked at all the same: what is
 * announced once that is back is what holds then.
 */
export async function watchRole(watch: RoleWatch, signal: AbortSignal): Promise<void> {
  const { role, instance, address, log } = watch;
  const { check, name } = role;
  const jobId = instance.id;
  const entry = new Entry(watch);
  let holding = notHeld;
  while (!signal.aborted) {
    const problem = await probe(check, { address, port: role.port }, signal);
    if (signal.aborted) return;
    const before = holding;
    holding = judgeRole(before, problem === undefined, check.threshold);
    if (holding.isHeld && !before.isHeld) log.info({ jobId, role: name }, 'has the role: in discovery under its name');
    if (!holding.isHeld && before.isHeld) log.info({ jobId, role: name }, `has the role no more: ${problem}`);
    watch.onLook?.(holding.isHeld);
    await (holding.isHeld ? entry.put() : entry.take());
    await pause(steadyWaitMs(check, performance.now()), signal);
  }
}

/** What discovery has of the role, by what it was told. */
class Entry {
  readonly #watch: RoleWatch;
  #isThere = false;
  /** Also one whose announcement failed: it may have gone through. */
  #mayBeThere: boolean;
  #isTold = false;

  constructor(watch: RoleWatch) {
    this.#watch = watch;
    this.#mayBeThere = watch.mayBeAnnounced;
  }

  /** Once; the next look tries again. */
  async put(): Promise<void> {
    if (this.#isThere) return;
    const { announcer, instance, log } = this.#watch;
    this.#mayBeThere = true;
    try {
      await announcer.register(instance);
      this.#isThere = true;
      this.#isTold = false;
    } catch (error) {
      const { service, id } = instance;
      if (!this.#isTold) log.warn(`could not announce ${service}/${id}, trying on: ${messageOf(error)}`);
      this.#isTold = true;
    }
  }

  async take(): Promise<void> {
    if (!this.#mayBeThere) return;
    const { announcer, instance, log } = this.#watch;
    await withdraw(announcer, instance.service, instance.id, { log });
    this.#isThere = false;
    this.#mayBeThere = false;
  }
}
