/**
 * Looks at what types that are scaled by themselves have to do, and changes their counts.
 *
 * INVARIANTS. A count is changed in one transaction with what the setting says of it and with its entry in the audit trail; it
 * compares the setting, the formation and the seat of whoever scales. What was seen is in memory alone: whoever takes over begins
 * with nothing, and does nothing before half a window was seen, and no less than `downAfterMs` before there are fewer jobs.
 */
import { hasCode } from '@flynn/kit/errors';
import { withDeadline } from '@flynn/kit/retry';
import { removePiece, writePiece } from '@flynn/resource/piece';
import type { Piece } from '@flynn/resource/piece';
import type { Compare } from '@flynn/store/store';
import type { Deps } from '../deps.ts';
import { Asking } from './asking.ts';
import type { Silent } from './asking.ts';
import { changeCount } from './changes.ts';
import { jobsOfWorkloads } from './jobs.ts';
import type { TypeJobs } from './jobs.ts';
import { nextCount, wantedFor, withWanted } from './law.ts';
import type { Past } from './law.ts';
import { CpuMeter, RequestMeter } from './meters.ts';
import { statusAfter } from './report.ts';
import type { Look } from './report.ts';
import { autoscaleType } from './resource.ts';
import type { AutoscaleResource } from './resource.ts';
import { heldBy, subjectOf } from './subject.ts';
import type { Subject } from './subject.ts';
import { figuresText, workOf } from './work.ts';

const lookMs = 30_000;
/** Who was not heard of at so many looks is not measured. */
const staleLooks = 3;

/** What is remembered of a type from look to look. */
type Track = {
  requests: RequestMeter;
  past: Past;
  /** As it was left, and of which settings: where somebody changed them since it begins anew. */
  count: number;
  generation: number;
};

type Around = Readonly<{ jobs: TypeJobs; silentHosts: Silent; everyMs: number; signal: AbortSignal }>;

export class Autoscaler {
  readonly #deps: Deps;
  readonly #epoch: readonly Compare[];
  readonly #asking: Asking;
  readonly #cpu = new CpuMeter();
  readonly #tracks = new Map<string, Track>();

  /** `epoch`: of the seat, which every write compares. */
  constructor(deps: Deps, epoch?: Compare) {
    this.#deps = deps;
    this.#asking = new Asking(deps);
    this.#epoch = epoch === undefined ? [] : [epoch];
  }

  /** One look at all there are. `everyMs`: how long until the next. What goes wrong with one stops no other. */
  async look(settings: readonly AutoscaleResource[], everyMs: number, signal: AbortSignal): Promise<void> {
    const limited = withDeadline(lookMs, signal);
    const found = await Promise.all(settings.map((setting) => this.#subjectOf(setting, limited)));
    const subjects = found.flatMap((subject) => subject ?? []);
    const ids = new Set(subjects.map(({ setting }) => setting.id));
    for (const id of this.#tracks.keys()) if (!ids.has(id)) this.#tracks.delete(id);
    if (subjects.length === 0) return;
    const all = jobsOfWorkloads(this.#deps.cell, new Set(subjects.map(({ workloadId }) => workloadId)));
    const silentHosts = await this.#measure(subjects, all, limited);
    await Promise.all(
      subjects.map(async (subject) => {
        const jobs = all.get(subject.workloadId);
        // Its workload is not in the mirror yet: it has just begun.
        if (jobs === undefined) return;
        const around = { jobs, silentHosts, everyMs, signal: limited };
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
    all: ReadonlyMap<string, TypeJobs>,
    signal: AbortSignal,
  ): Promise<Silent> {
    const byCpu = subjects.filter(({ setting }) => setting.spec.cpuPercent !== undefined);
    const running = byCpu.flatMap(({ workloadId }) => all.get(workloadId)?.running ?? []);
    this.#cpu.keepOnly(new Set(running.map(({ id }) => id)));
    const { seconds, silent } = await this.#asking.hosts(new Set(running.map(({ hostId }) => hostId)), signal);
    const keepMs = Math.max(0, ...byCpu.map(({ setting }) => setting.spec.windowMs));
    for (const { id } of running) {
      const told = seconds.get(id);
      if (told !== undefined) this.#cpu.note(id, told.atMs, told.seconds, keepMs);
    }
    return silent;
  }

  async #lookAt(subject: Subject, { jobs, silentHosts, everyMs, signal }: Around): Promise<void> {
    const { setting, count, process } = subject;
    const { windowMs, downAfterMs, min, max, ...targets } = setting.spec;
    const isByRequests = targets.requestsPerSecond !== undefined || targets.requestsInFlight !== undefined;
    const track = this.#trackOf(subject);
    const routers = isByRequests ? await this.#asking.routers(subject, signal) : undefined;
    const nowMs = this.#deps.now();
    if (routers !== undefined && routers.byRouter.size > 0) track.requests.note(nowMs, routers.byRouter, windowMs);
    const ownHosts = new Set(targets.cpuPercent === undefined ? [] : jobs.running.map(({ hostId }) => hostId));
    const silent = [...silentHosts].filter(([hostId]) => ownHosts.has(hostId));
    const ids = jobs.running.map(({ id }) => id);
    const work = workOf(setting.spec, process, {
      count,
      cpu: this.#cpu.use(ids, { nowMs, windowMs, staleMs: staleLooks * everyMs }),
      hasSilentHosts: jobs.uncertain > 0 || silent.length > 0,
      perSecond: track.requests.perSecond(nowMs, windowMs),
      inFlight: track.requests.inFlight(nowMs, windowMs),
      hasSilentRouters: routers !== undefined && routers.silent.size > 0,
    });
    const loads = work.map(({ load }) => load);
    const wanted = wantedFor(count, loads);
    track.past = withWanted(track.past, { atMs: nowMs, wanted }, downAfterMs);
    const next = nextCount({ current: count, min, max, past: track.past, downAfterMs });
    const figures = figuresText(work);
    // Those that are there only because of the least there is to be are asked for all the same.
    const isFull = next > count && count >= min && jobs.waiting > 0;
    if (next !== count && !isFull) {
      const change = { nowMs, from: count, to: next, wanted, figures };
      await changeCount(this.#deps, subject, { change, epoch: this.#epoch, signal });
      track.count = next;
      return;
    }
    const held = heldBy({
      isFull,
      jobs,
      silent: [...silent.map(([hostId, why]) => [`host ${hostId}`, why] as const), ...(routers?.silent ?? [])],
      isMeasuring: figures === undefined,
    });
    await this.#tell(setting, { nowMs, held, seen: figures === undefined ? undefined : { wanted, figures } }, signal);
  }

  #trackOf({ setting, count }: Subject): Track {
    const known = this.#tracks.get(setting.id);
    if (known?.count === count && known.generation === setting.generation) return known;
    const { requests = new RequestMeter() } = known ?? {};
    const track: Track = { requests, past: [], count, generation: setting.generation };
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
