/**
 * Looks at what types that are scaled by themselves have to do, and changes their counts.
 *
 * INVARIANTS. A count is changed in one transaction with what the setting says of it and with its entry in the audit trail; it
 * compares the setting, the formation and the seat of whoever scales. What was seen is in memory alone: whoever takes over begins
 * with nothing, and does nothing before half a window was seen, and no less than `downAfterMs` before there are fewer jobs.
 */
import { hasCode } from '@flynn/kit/errors';
import { withDeadline } from '@flynn/kit/retry';
import { Slots } from '@flynn/kit/slots';
import { removePiece, writePiece } from '@flynn/resource/piece';
import type { Piece } from '@flynn/resource/piece';
import type { Compare } from '@flynn/store/store';
import type { Deps } from '../deps.ts';
import { Asking } from './asking.ts';
import type { RoutersAnswer, Silent } from './asking.ts';
import { changeCount } from './changes.ts';
import { jobsOfWorkloads } from './jobs.ts';
import type { TypeJobs } from './jobs.ts';
import { nextCount, wantedFor, withWanted } from './law.ts';
import type { Past } from './law.ts';
import { intervalOf, longestIntervalMs, nextLookMs } from './looks.ts';
import { CpuMeter, RequestMeter } from './meters.ts';
import { statusAfter } from './report.ts';
import type { Look } from './report.ts';
import { autoscaleType } from './resource.ts';
import type { AutoscaleResource } from './resource.ts';
import { isByRequests } from './rules.ts';
import { heldBy, subjectOf } from './subject.ts';
import type { Held, Subject } from './subject.ts';
import { figuresText, workOf } from './work.ts';

const lookMs = 30_000;
/** So many are read at once. */
const atOnce = 32;
/** Who was not heard of at so many looks is not measured; and what was wanted before so long a gap is of another time. */
const staleLooks = 3;

/** What is remembered of a type from look to look. */
type Track = {
  cpu: CpuMeter;
  requests: RequestMeter;
  past: Past;
  /** What was not known lately, and when. */
  blind: Readonly<{ atMs: number; held: Held }> | undefined;
  /** As it was left, and of which settings: where somebody changed them since it begins anew. */
  count: number;
  generation: number;
};

type Due = { generation: number; atMs: number };

type Around = Readonly<{ jobs: TypeJobs; asking: Asking; silentHosts: Silent; signal: AbortSignal }>;

export class Autoscaler {
  readonly #deps: Deps;
  readonly #epoch: readonly Compare[];
  readonly #reads = new Slots(atOnce);
  /** When each is looked at next; at once, if somebody changed it. */
  readonly #due = new Map<string, Due>();
  #lookedMs = -Infinity;
  readonly #tracks = new Map<string, Track>();

  /** `epoch`: of the seat, which every write compares. */
  constructor(deps: Deps, epoch?: Compare) {
    this.#deps = deps;
    this.#epoch = epoch === undefined ? [] : [epoch];
  }

  /**
   * One look at those of all there are whose time has come; answers when it comes for the next, Infinity for none. What goes
   * wrong with one stops no other.
   */
  async look(settings: readonly AutoscaleResource[], signal: AbortSignal): Promise<number> {
    this.#forgetFuture();
    const ids = new Set(settings.map(({ id }) => id));
    for (const known of [this.#tracks, this.#due]) for (const id of known.keys()) if (!ids.has(id)) known.delete(id);
    const due = settings.filter((setting) => this.#isDue(setting));
    if (due.length > 0) await this.#lookAtAll(due, withDeadline(lookMs, signal));
    return Math.min(...[...this.#due.values()].map(({ atMs }) => atMs));
  }

  /** What a clock saw that was ahead, and is right now, is of no time that there was: whatever is measured begins anew. */
  #forgetFuture(): void {
    const nowMs = this.#deps.now();
    if (nowMs < this.#lookedMs - longestIntervalMs) for (const known of [this.#tracks, this.#due]) known.clear();
    this.#lookedMs = nowMs;
  }

  #isDue({ id, generation, spec }: AutoscaleResource): boolean {
    const nowMs = this.#deps.now();
    const known = this.#due.get(id);
    if (known?.generation === generation && known.atMs > nowMs) return false;
    this.#due.set(id, { generation, atMs: nextLookMs(nowMs, intervalOf(spec.windowMs)) });
    return true;
  }

  async #lookAtAll(settings: readonly AutoscaleResource[], limited: AbortSignal): Promise<void> {
    const read = (setting: AutoscaleResource) =>
      this.#reads.run(() => this.#subjectOf(setting, limited), { signal: limited });
    const found = await Promise.all(settings.map(read));
    const subjects = found.flatMap((subject) => subject ?? []);
    const ids = new Set(subjects.map(({ setting }) => setting.id));
    for (const { id } of settings) if (!ids.has(id)) this.#tracks.delete(id);
    if (subjects.length === 0) return;
    const all = jobsOfWorkloads(this.#deps.cell, new Set(subjects.map(({ workloadId }) => workloadId)));
    const asking = new Asking(this.#deps);
    const silentHosts = await this.#measure(subjects, { all, asking, signal: limited });
    await Promise.all(
      subjects.map(async (subject) => {
        const jobs = all.get(subject.workloadId);
        // Its workload is not in the mirror yet: it has just begun.
        if (jobs === undefined) return;
        const around = { jobs, asking, silentHosts, signal: limited };
        await this.#guarded(subject.setting, () => this.#lookAt(subject, around));
      }),
    );
  }

  async #subjectOf(setting: AutoscaleResource, signal: AbortSignal): Promise<Subject | undefined> {
    return this.#guarded(setting, async () => {
      const found = await subjectOf(this.#deps, setting, signal);
      if (found.is === 'there') return found.subject;
      if (found.is === 'gone') await this.#commit([removePiece(autoscaleType, setting)], signal);
      else await this.#tell(setting, { nowMs: this.#deps.now(), held: found.held, seen: undefined }, signal);
      return undefined;
    });
  }

  /** Whoever changed something in between is seen at the next look. */
  async #guarded<T>({ id }: AutoscaleResource, act: () => Promise<T>): Promise<T | undefined> {
    try {
      return await act();
    } catch (error) {
      const { log } = this.#deps;
      if (hasCode(error, 'conflict', 'not_found')) log.debug({ err: error, id }, 'scaling was overtaken');
      else log.warn({ err: error, id }, `${id} could not be scaled by itself`);
      return undefined;
    }
  }

  /** Notes what jobs use of types that are scaled by that; answers which hosts did not tell. */
  async #measure(
    subjects: readonly Subject[],
    { all, asking, signal }: { all: ReadonlyMap<string, TypeJobs>; asking: Asking; signal: AbortSignal },
  ): Promise<Silent> {
    const byCpu = subjects.filter(({ setting }) => setting.spec.cpuPercent !== undefined);
    const runningOf = ({ workloadId }: Subject) => all.get(workloadId)?.running ?? [];
    const hostIds = new Set(byCpu.flatMap(runningOf).map(({ hostId }) => hostId));
    const { seconds, silent } = await asking.hosts(hostIds, signal);
    for (const subject of byCpu) {
      const { cpu } = this.#trackOf(subject);
      const running = runningOf(subject);
      cpu.keepOnly(new Set(running.map(({ id }) => id)));
      for (const { id } of running) {
        const told = seconds.get(id);
        if (told !== undefined) cpu.note(id, told.atMs, told.seconds, subject.setting.spec.windowMs);
      }
    }
    return silent;
  }

  async #lookAt(subject: Subject, { jobs, asking, silentHosts, signal }: Around): Promise<void> {
    const { setting, count, process } = subject;
    const { windowMs, downAfterMs, min, max, ...targets } = setting.spec;
    const track = this.#trackOf(subject);
    const routers = isByRequests(targets) ? await asking.routers(subject, signal) : undefined;
    const nowMs = this.#deps.now();
    if (routers !== undefined) noteRequests(track.requests, nowMs, routers, windowMs);
    const ownHosts = new Set(targets.cpuPercent === undefined ? [] : jobs.running.map(({ hostId }) => hostId));
    const silent = [...silentHosts].filter(([hostId]) => ownHosts.has(hostId));
    const ids = jobs.running.map(({ id }) => id);
    const staleMs = staleLooks * intervalOf(windowMs);
    const work = workOf(setting.spec, process, {
      count,
      cpu: track.cpu.use(ids, { nowMs, windowMs, staleMs }),
      hasSilentHosts: jobs.uncertain > 0 || silent.length > 0,
      perSecond: track.requests.perSecond(nowMs, windowMs),
      inFlight: track.requests.inFlight(nowMs, windowMs),
      running: jobs.running.length,
    });
    const loads = work.map(({ load }) => load);
    const wanted = wantedFor(count, loads);
    const isAfterGap = nowMs - (track.past.at(-1)?.atMs ?? nowMs) > staleMs;
    track.past = withWanted(isAfterGap ? [] : track.past, { atMs: nowMs, wanted }, downAfterMs);
    const next = nextCount({ current: count, min, max, past: track.past, downAfterMs });
    const figures = figuresText(work);
    // Those that are there only because of the least there is to be are asked for all the same.
    const isFull = next > count && count >= min && jobs.waiting > 0;
    if (next !== count && !isFull) {
      const change = { nowMs, from: count, to: next, wanted, figures, max, downAfterMs };
      await changeCount(this.#deps, subject, { change, epoch: this.#epoch, signal });
      track.count = next;
      return;
    }
    const found = heldBy({
      isFull,
      jobs,
      silent: [...silent.map(([hostId, why]) => [`host ${hostId}`, why] as const), ...(routers?.silent ?? [])],
      isLedTo: routers?.isLedTo ?? true,
      isMeasuring: figures === undefined,
      // Of none that there are anyway nobody has to know.
      doubt: count > min ? work.find(({ why }) => why !== undefined)?.why : undefined,
    });
    const held = settledHeld(track, found, { nowMs, spanMs: staleMs });
    await this.#tell(setting, { nowMs, held, seen: figures === undefined ? undefined : { wanted, figures } }, signal);
  }

  #trackOf({ setting, count }: Subject): Track {
    const known = this.#tracks.get(setting.id);
    if (known?.count === count && known.generation === setting.generation) return known;
    const { cpu = new CpuMeter(), requests = new RequestMeter() } = known ?? {};
    const track: Track = { cpu, requests, past: [], blind: undefined, count, generation: setting.generation };
    this.#tracks.set(setting.id, track);
    return track;
  }

  async #tell(setting: AutoscaleResource, look: Look, signal: AbortSignal): Promise<void> {
    const status = statusAfter(setting.status, look);
    if (status === setting.status) return;
    await this.#commit([writePiece(autoscaleType, setting, { ...setting, status })], signal);
  }

  async #commit(pieces: readonly Piece[], signal: AbortSignal): Promise<void> {
    await this.#deps.resources.commit([...pieces, { compare: this.#epoch }], { signal });
  }
}

function noteRequests(meter: RequestMeter, nowMs: number, { counts, isLedTo, silent }: RoutersAnswer, keepMs: number) {
  if (counts === undefined || !isLedTo) meter.miss(nowMs);
  else meter.note(nowMs, counts, { keepMs, isWhole: silent.size === 0 });
}

/** Who answers now and then has not come back: one good look between bad ones is not told. */
function settledHeld(
  track: Track,
  held: Held | undefined,
  { nowMs, spanMs }: { nowMs: number; spanMs: number },
): Held | undefined {
  if (held?.reason === 'blind') track.blind = { atMs: nowMs, held };
  const isGood = held === undefined || held.reason === 'measuring';
  return isGood && track.blind !== undefined && nowMs - track.blind.atMs <= spanMs ? track.blind.held : held;
}
