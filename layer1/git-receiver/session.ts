/** One command of one client: git's two services, or a sentence. */
import type { App } from '@flynn/controller/model';
import { pause } from '@flynn/kit/clock';
import { messageOf } from '@flynn/kit/errors';
import { newId } from '@flynn/kit/ids';
import { KeyedMutex } from '@flynn/kit/queue';
import { withDeadline } from '@flynn/kit/retry';
import { Slots } from '@flynn/kit/slots';
import type { ServerChannel } from 'ssh2';
import { isWhole, typeOf } from './archive.ts';
import { minutesText, refuse, runOn, tell } from './channel.ts';
import { parseCommand } from './command.ts';
import { deploy } from './deploy.ts';
import type { DeployDeps } from './deploy.ts';
import { DeploymentWait } from './deployment-wait.ts';
import { Fetches } from './fetches.ts';
import type { FetchTimes } from './fetches.ts';
import { ensureRepository, maxPackBytes } from './git.ts';
import type { HookCall, HookServer } from './hook-server.ts';
import type { Platform } from './platform.ts';
import { parsePushOptions } from './push-options.ts';
import { headsOf, makeRoomFor, removeLeft } from './repositories.ts';
import { decide, noCommit, notWhole, parseUpdates } from './updates.ts';
import type { RefUpdate } from './updates.ts';

/** A build, a release and a deployment together; whatever takes longer hangs. So long others may wait for their turn. */
const pushDeadlineMs = 2 * 3_600_000;
/** Who waits is told so often that it still does: silence is taken for a standstill, by people and by what is in between. */
const stillMs = 60_000;
/** So long a client may take what is still on the way to it when its command has ended. */
const lingerMs = 10_000;
/** Each keeps a git and a hook in memory until it is live. Runners build fewer at a time than this. */
export const maxPushes = 6;

/** What is pushed to, and the platform as the one who pushes may use it. */
type Target = { app: App; repository: string; platform: Platform };

export type SessionDeps = DeployDeps & {
  repositoryDir: string;
  hooks: HookServer;
  /** Told of every command when it has ended: 0 is what went well. */
  onEnd?: (ended: { service: string; code: number; tookMs: number }) => void;
  /**
   * How long one waits for others, how often it is told, how often a push looks whether a deployment of its app has ended, and how
   * long the client of a fetch may take nothing.
   */
  waiting?: FetchTimes & { lookMs?: number };
};

/**
 * INVARIANTS. One push at a time for each app, and so many of all apps as memory is meant for; of apps that are being deployed not
 * so many that others find no place. A ref moves only if its commit
 * went live. When the client goes away, its git and its operations do too.
 */
export class Sessions {
  readonly #deps: SessionDeps;
  readonly #locks = new KeyedMutex();
  readonly #pushing = new Map<string, number>();
  /** By app, since when. */
  readonly #underWay = new Map<string, number>();
  readonly #places = new Slots(maxPushes);
  readonly #fetches: Fetches;
  readonly #deployments: DeploymentWait;
  #running = 0;

  constructor(deps: SessionDeps) {
    this.#deps = deps;
    const { lookMs, ...fetchTimes } = deps.waiting ?? {};
    this.#fetches = new Fetches(fetchTimes);
    this.#deployments = new DeploymentWait({ log: deps.log, ...(lookMs === undefined ? {} : { lookMs }) });
  }

  get running(): number {
    return this.#running;
  }

  /** Serves the command to its end and closes the channel with its exit code. Never throws. */
  async serve(
    command: string,
    channel: ServerChannel,
    options: { fingerprint: string; signal: AbortSignal; gitProtocol: string },
  ): Promise<void> {
    const { log } = this.#deps;
    this.#running += 1;
    const startedMs = performance.now();
    const gone = new AbortController();
    channel.on('close', () => gone.abort(new Error('the client went away')));
    channel.on('error', (error: Error) => log.debug({ err: error }, 'a channel broke'));
    const signal = AbortSignal.any([options.signal, gone.signal]);
    let code = 1;
    try {
      code = await this.#serve(command, channel, { ...options, signal });
    } catch (error) {
      if (!signal.aborted) log.error({ err: error, command }, `a command failed: ${messageOf(error)}`);
      tell(
        channel,
        `error: ${signal.aborted ? 'the git receiver is stopping' : messageOf(error)}. Try again in a moment.`,
      );
    } finally {
      const [service = ''] = /git-(receive|upload)-pack/.exec(command) ?? ['other'];
      this.#deps.onEnd?.({ service, code, tookMs: performance.now() - startedMs });
      if (channel.writable) {
        channel.exit(code);
        channel.end();
        // It closes once it has passed on everything; where its connection ends before, it throws away what it has not. What it
        // still sends, behind which it closes, nobody wants.
        channel.resume();
        await pause(lingerMs, gone.signal);
      }
      this.#running -= 1;
    }
  }

  async #serve(
    command: string,
    channel: ServerChannel,
    options: { fingerprint: string; signal: AbortSignal; gitProtocol: string },
  ): Promise<number> {
    const { signal } = options;
    const platform = this.#deps.platform.actingFor(options.fingerprint);
    const wanted = parseCommand(command);
    if ('problem' in wanted) return refuse(channel, wanted.problem);
    const app = await platform.findApp(wanted.app, { signal: withDeadline(15_000, signal) });
    if (app === undefined) {
      return refuse(
        channel,
        `there is no app "${wanted.app}". List them with: flynn apps; make one with: flynn create ${wanted.app}`,
      );
    }
    if (app.isSystem) return refuse(channel, `"${app.name}" is part of the platform and is not pushed to`);
    const repository = await ensureRepository(this.#deps.repositoryDir, app.id);
    if (wanted.service === 'upload-pack') {
      const env: Record<string, string> = options.gitProtocol === '' ? {} : { GIT_PROTOCOL: options.gitProtocol };
      return this.#fetches.serve(channel, repository, { env, signal });
    }
    return this.#receive(channel, { app, repository, platform }, signal);
  }

  async #receive(channel: ServerChannel, target: Target, signal: AbortSignal): Promise<number> {
    const { app, repository } = target;
    const before = this.#pushing.get(app.id) ?? 0;
    this.#pushing.set(app.id, before + 1);
    if (before > 0) tell(channel, `Another push to ${app.name} is under way: waiting for it to end.`);
    const { limitMs = pushDeadlineMs, tellMs = stillMs } = this.#deps.waiting ?? {};
    let hasBegun = false;
    const waiting = new AbortController();
    const timer = setTimeout(() => waiting.abort(), limitMs);
    const telling = setInterval(() => tell(channel, this.#whatItWaitsFor(app)), tellMs);
    const push = async () => {
      clearTimeout(timer);
      clearInterval(telling);
      hasBegun = true;
      this.#underWay.set(app.id, performance.now());
      const limited = withDeadline(pushDeadlineMs, signal);
      const ended = new AbortController();
      let deciding: Promise<unknown> | undefined;
      let accepted: RefUpdate | undefined;
      using hook = this.#deps.hooks.expect((call) => {
        const decision = this.#decide(target, call, AbortSignal.any([limited, ended.signal])).then((isLive) => {
          if (isLive) [accepted] = parseUpdates(call.updates);
          return isLive;
        });
        deciding = decision;
        return decision;
      });
      const settings = {
        'core.hooksPath': this.#deps.hooks.hooksPath,
        'receive.advertisePushOptions': 'true',
        'receive.denyNonFastForwards': 'false',
        'receive.denyCurrentBranch': 'ignore',
        'receive.maxInputSize': String(maxPackBytes),
      };
      const args = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
      try {
        const code = await runOn(channel, [...args, 'receive-pack', repository], { env: hook.env, signal: limited });
        if (accepted !== undefined) await this.#tellUnmoved(channel, target, accepted);
        return code;
      } finally {
        // What it started is cancelled before this push counts as ended: whoever waits for that may be about to end too.
        ended.abort(new Error('git has ended'));
        // Why it failed its hook was told, and the log.
        await deciding?.catch(() => undefined);
        await removeLeft(repository);
        this.#underWay.delete(app.id);
      }
    };
    try {
      const inTime = AbortSignal.any([signal, waiting.signal]);
      return await this.#locks.run(app.id, () => this.#inPlace(channel, target, push, inTime), { signal: inTime });
    } catch (error) {
      if (hasBegun || !waiting.signal.aborted) throw error;
      return refuse(
        channel,
        `the pushes before this one have not ended in ${minutesText(limitMs)}: try again later. What is under way tells: flynn op list -a ${app.name}`,
      );
    } finally {
      clearTimeout(timer);
      clearInterval(telling);
      const left = (this.#pushing.get(app.id) ?? 1) - 1;
      if (left > 0) this.#pushing.set(app.id, left);
      else this.#pushing.delete(app.id);
    }
  }

  /** git refuses a ref with exit code 0, and after its hook has accepted it. */
  async #tellUnmoved(channel: ServerChannel, { app, repository }: Target, { ref, after }: RefUpdate): Promise<void> {
    try {
      const heads = await headsOf(repository, { signal: AbortSignal.timeout(15_000) });
      if (heads.get(ref) === after) return;
    } catch (error) {
      // What git said of the push stands.
      this.#deps.log.warn({ err: error, app: app.id, ref }, 'could not look whether git moved a ref');
      return;
    }
    this.#deps.log.error({ app: app.id, ref, commit: after }, 'a commit is live, and git did not move its ref');
    tell(
      channel,
      `error: ${after} is live, but git did not keep it as ${ref}: the next push sends and builds it again.`,
    );
  }

  #whatItWaitsFor({ id, name }: App): string {
    const now = performance.now();
    const own = this.#underWay.get(id);
    if (own !== undefined) return `Still waiting for another push to ${name}, under way for ${minutesText(now - own)}.`;
    if (this.#deployments.isWaiting(id))
      return `Still waiting for a deployment of ${name} to end: flynn deployment tells how it is.`;
    const longest = minutesText(now - Math.min(now, ...this.#underWay.values()));
    return `Still waiting for one of ${this.#underWay.size} other pushes to end, under way for up to ${longest}.`;
  }

  async #inPlace(
    channel: ServerChannel,
    target: Target,
    push: () => Promise<number>,
    signal: AbortSignal,
  ): Promise<number> {
    const { app, platform } = target;
    // So that others find a place.
    await this.#deployments.over(app, platform, {
      isCrowded: () => this.#places.free <= maxPushes / 2,
      onWait: () =>
        tell(channel, `Other pushes are under way, and so is a deployment of ${app.name}: waiting for that to end.`),
      signal,
    });
    if (this.#places.isFull) tell(channel, `${maxPushes} other pushes are under way: waiting for one of them to end.`);
    return this.#places.run(push, { signal });
  }

  async #decide({ app, repository, platform }: Target, call: HookCall, signal: AbortSignal): Promise<boolean> {
    const decision = decide(parseUpdates(call.updates), app);
    if ('refusal' in decision) return refusePush(call, decision.refusal);
    const asked = parsePushOptions(call.options);
    if ('refusal' in asked) return refusePush(call, asked.refusal);
    const { say, quarantine } = call;
    const type = await typeOf({ commit: decision.deploy.commit, repository, env: quarantine }, signal);
    if (type !== 'commit') return refusePush(call, noCommit(type, decision.deploy.branch));
    // Else git refuses it once it is live.
    if (!(await isWhole({ commit: decision.deploy.commit, repository, env: quarantine }, signal)))
      return refusePush(call, notWhole);
    const pushId = newId();
    this.#deps.log.info({ app: app.id, pushId, commit: decision.deploy.commit }, 'push');
    const isLive = await deploy(
      { ...this.#deps, platform },
      { app, pushId, ...decision.deploy, ...asked, repository, quarantine },
      { say, signal: AbortSignal.any([signal, call.signal]) },
    );
    this.#deps.log.info({ app: app.id, pushId, isLive }, 'push ended');
    if (isLive) await this.#makeRoom(repository, `refs/heads/${decision.deploy.branch}`, signal);
    return isLive;
  }

  /** What is live is accepted: where there is no room git refuses the ref, which is told. */
  async #makeRoom(repository: string, ref: string, signal: AbortSignal): Promise<void> {
    try {
      await makeRoomFor(repository, ref, { signal });
    } catch (error) {
      this.#deps.log.error(
        { err: error, repository, ref },
        'could not remove the branches beside which git cannot keep a ref',
      );
    }
  }
}

/** What git's hook answers. */
function refusePush({ say }: HookCall, lines: readonly string[]): false {
  for (const line of lines) say(` !     ${line}`);
  return false;
}
