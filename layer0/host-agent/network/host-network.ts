/** Keeps this host's network what it should be: at once when the cluster changes, within seconds when somebody meddles. */
import { pause } from '@flynn/kit/clock';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { overlaps } from './addresses.ts';
import { parseNetwork, readNetwork, readRules } from './actual.ts';
import { canMatchBridge } from './bridge-match.ts';
import { type Change, difference, nft } from './difference.ts';
import type { ReachedHost, ShownNetwork } from './api.ts';
import type { Crowd, Holder } from './crowd.ts';
import { type Encryption, type EncryptionWord, encryptionOf } from './encryption.ts';
import { removeLeftPorts } from './left-ports.ts';
import type { Link } from './links.ts';
import { type Known, recall, remember } from './memory.ts';
import { type Neighbour, neighboursOf } from './neighbours.ts';
import type { LocalJob } from './policy.ts';
import type { Run } from './program.ts';
import { Reach } from './reach.ts';
import {
  type Machine,
  type NetworkSettings,
  type NetworkState,
  migrateSysctl,
  retriesSysctl,
  tunnelDevice,
  wanted,
} from './state.ts';

/** The README says it, and within how long what somebody changes is back. */
export const usualCheckMs = 6_000;
/** What comes within this time is one change of the rules. */
const batchMs = 50;
/** In a large cluster they change all the time: so many times what a change took passes until the next, if it took long. */
const restPerApply = 6;
const rememberedRepairs = 100;
const rememberEveryMs = 10_000;

export type HostNetworkOptions = {
  /** As they are at the moment. */
  settings: () => NetworkSettings;
  /** Where to remember what the store said. */
  file: string;
  jobs: () => readonly LocalJob[];
  crowd?: Pick<Crowd, 'held' | 'holders'>;
  run: Run;
  /** For what may take its time: whatever else is to be run does not wait for it. */
  runBeside: Run;
  /** How often to look for what nobody tells of. */
  checkEveryMs?: number;
  log: Logger;
};

/**
 * What the store says of the cluster: of encryption its word, which may be none that is understood. `unread`: hosts whose leases
 * are there and cannot be read.
 */
export type Heard = Omit<Known, 'encryption'> & Readonly<{ word: EncryptionWord; unread?: ReadonlySet<string> }>;

/**
 * INVARIANTS. One command at a time, and beside it a look at what was left. Until the cluster is known (`follow`), what it was when
 * last heard of holds. What is not ours is never touched but for ports that were left: rules outside our tables and chains, routes
 * without our protocol, devices without our name.
 */
export class HostNetwork {
  readonly #options: HostNetworkOptions;
  #known: Known = { leases: [], endpoints: [], encryption: 'off' };
  /** Undefined before any was heard of. */
  #knownEncryption: Encryption | undefined;
  #isUnreadable = false;
  #read: (() => Heard) | undefined;
  #changed = Promise.withResolvers<void>();
  #canMatchBridge: boolean | undefined;
  #machine: Machine | undefined;
  /** The rules as they were given to nft, and as it listed them then. */
  #applied: { ruleset: string; rules: string } | undefined;
  /** What was last found and made right. */
  #settled: string | undefined;
  /** What the machine said when everything was right; nothing is to do as long as it says the same and nothing changed. */
  #right: string | undefined;
  /** Before that the rules are not changed again. */
  #restedMs = 0;
  #remembered = '';
  readonly #problems = new Map<string, string>();
  readonly #reach = new Reach();
  /** Of WireGuard's peers, by their public keys. */
  #given = new Map<string, string>();
  #lost = new Set<string>();
  #mayHaveLeftPorts = false;
  #engineFound = Promise.withResolvers<void>();
  #carriedOut: Readonly<{ encryption: Encryption | undefined; links: readonly Link[] }> | undefined;
  #repairs = 0;
  #repairedAt: number[] = [];

  constructor(options: HostNetworkOptions) {
    this.#options = options;
  }

  get settings(): NetworkSettings {
    return this.#options.settings();
  }

  /** Hosts that this one does not hear through WireGuard: none that it should choose to pass on what it sends. */
  get unheard(): string[] {
    return this.#reach.lost.map(({ hostId }) => hostId).sort();
  }

  /** Encryption as it was carried out last, absent before the first time; and what keeps anything from being carried out. */
  get shown(): ShownNetwork {
    const { encryption, links = [] } = this.#carriedOut ?? {};
    const problems = [...this.#problems.values()];
    return {
      ...(encryption === undefined ? {} : { encryption }),
      ...(this.#isUnreadable ? { isUnreadable: true } : {}),
      ...(problems.length === 0 ? {} : { problems }),
      hosts: links.map((link) => this.#reachedHost(link)),
    };
  }

  #reachedHost(link: Link): ReachedHost {
    const { hostId, tunnelKey } = link.lease;
    const isHeard = tunnelKey === undefined ? undefined : this.#reach.isHeard(tunnelKey, performance.now());
    return {
      hostId,
      way: link.way,
      ...(link.way === 'wireguard' ? { through: link.through } : {}),
      ...(link.way === 'none' ? { why: link.why } : {}),
      ...(isHeard === undefined ? {} : { isHeard }),
    };
  }

  /** How many times something that had been right was found changed. */
  get repairs(): number {
    return this.#repairs;
  }

  /** When, in milliseconds since the epoch; the last of them. */
  get repairedAt(): readonly number[] {
    return this.#repairedAt;
  }

  /** What is not as it should be and cannot be put right, with why. */
  get problems(): string[] {
    const failures = [...this.#problems].map(([complaint, problem]) => `${complaint}: ${problem}`);
    return [...failures, ...this.#reach.problems(performance.now())];
  }

  /** Hosts that there is a way to, as far as it is known, and where containers of theirs are announced. */
  get neighbours(): Neighbour[] {
    const { links = [] } = this.#carriedOut ?? {};
    const reached = links.filter((link) => link.way !== 'none' && this.#reachedHost(link).isHeard !== false);
    return neighboursOf(
      reached.map(({ lease }) => lease),
      this.#known.endpoints.map(({ address }) => address),
    );
  }

  /** Who has begun most of the host's connections, while these are too many. */
  get holders(): readonly Holder[] {
    return this.#options.crowd?.holders ?? [];
  }

  /** From now on the cluster is what `read` answers. */
  follow(read: () => Heard): void {
    this.#read = read;
    this.changed();
  }

  /** Containers may have ended without it. */
  engineIsBack(): void {
    this.#mayHaveLeftPorts = true;
    this.#engineFound.resolve();
    this.changed();
  }

  /** Jobs, leases or announced ports are not what they were. */
  changed(): void {
    this.#right = undefined;
    this.#changed.resolve();
  }

  /** Resolves when the signal aborts; the network stays. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#keep(signal), this.#clear(signal)]);
  }

  async #keep(signal: AbortSignal): Promise<void> {
    const { file, log } = this.#options;
    try {
      const recalled = await recall(file);
      this.#known = recalled ?? this.#known;
      this.#knownEncryption = recalled?.encryption;
    } catch (error) {
      log.warn(`the network starts without what was known of the cluster: ${messageOf(error)}`);
    }
    let rememberAt = 0;
    while (!signal.aborted) {
      await this.#attempt('the network is not what it should be', () => this.#check(signal), signal);
      if (performance.now() >= rememberAt) {
        await this.#attempt('the cluster cannot be remembered', () => this.#remember(), signal);
        rememberAt = performance.now() + rememberEveryMs;
      }
      await this.#followChanges(signal);
    }
    await this.#attempt('the cluster cannot be remembered', () => this.#remember(), signal);
  }

  /** What ended containers left: each time the engine is found, and then until it is known. */
  async #clear(signal: AbortSignal): Promise<void> {
    const { checkEveryMs = usualCheckMs } = this.#options;
    while (!signal.aborted) {
      if (this.#mayHaveLeftPorts) {
        await this.#attempt('what ended containers left on the bridge stays', () => this.#removeLeft(signal), signal);
      }
      const isOver = new AbortController();
      await Promise.race([this.#engineFound.promise, pause(checkEveryMs, AbortSignal.any([signal, isOver.signal]))]);
      isOver.abort();
      this.#engineFound = Promise.withResolvers();
    }
  }

  /** Until the next check is due. */
  async #followChanges(signal: AbortSignal): Promise<void> {
    const { checkEveryMs = usualCheckMs } = this.#options;
    const due = new AbortController();
    const until = AbortSignal.any([signal, due.signal]);
    const timer = setTimeout(() => due.abort(), checkEveryMs);
    try {
      while (!until.aborted) {
        await Promise.race([this.#changed.promise, pause(checkEveryMs, until)]);
        if (until.aborted) return;
        await pause(Math.max(batchMs, this.#restedMs - performance.now()), signal);
        this.#changed = Promise.withResolvers();
        if (this.#needsCheck()) return;
        await this.#attempt('the rules are not what they should be', () => this.#applyRules(signal), signal);
      }
    } finally {
      clearTimeout(timer);
      due.abort();
    }
  }

  /** What fails is told once, and tried again at the next check. */
  async #attempt(complaint: string, work: () => Promise<void>, signal: AbortSignal): Promise<void> {
    const { log } = this.#options;
    try {
      await work();
      if (this.#problems.delete(complaint)) log.info(`no more: ${complaint}`);
    } catch (error) {
      const problem = messageOf(error);
      if (signal.aborted || problem === this.#problems.get(complaint)) return;
      this.#problems.set(complaint, problem);
      log.error(`${complaint}, trying on: ${problem}`);
    }
  }

  /** What is read of the cluster now. */
  #hear(): void {
    if (this.#read === undefined) return;
    const { word, unread, leases, endpoints } = this.#read();
    this.#isUnreadable = word === 'unreadable';
    this.#knownEncryption = encryptionOf(word, this.#knownEncryption);
    // They are where they were, for all that is known.
    const kept = this.#known.leases.filter(({ hostId }) => unread?.has(hostId) === true);
    this.#known = { leases: [...leases, ...kept], endpoints, encryption: this.#knownEncryption };
  }

  async #removeLeft(signal: AbortSignal): Promise<void> {
    this.#mayHaveLeftPorts = false;
    try {
      const { jobs, runBeside: run } = this.#options;
      const { bridge, subnet } = this.settings;
      const running = () => jobs().filter(({ address }) => overlaps(subnet, address)).length;
      const ports = await removeLeftPorts({ bridge, running, run }, signal);
      if (ports.length === 0) return;
      const what =
        'containers that ended without their engine still answered on the bridge, perhaps in the place of others';
      this.#options.log.warn({ ports }, `${what}: taken away`);
    } catch (error) {
      this.#mayHaveLeftPorts = true;
      throw error;
    }
  }

  /** Other leases, and encryption, mean other routes, of which only a check knows what is there. */
  #needsCheck(): boolean {
    const before = JSON.stringify([this.#known.leases, this.#known.encryption]);
    this.#hear();
    return this.#machine === undefined || JSON.stringify([this.#known.leases, this.#known.encryption]) !== before;
  }

  #wanted(machine: Machine): NetworkState {
    const { settings } = this;
    const { jobs, crowd } = this.#options;
    return wanted({ settings, machine, ...this.#known, jobs: jobs(), held: crowd?.held ?? [] });
  }

  /** Rules alone: what changes with every job. */
  async #applyRules(signal: AbortSignal): Promise<void> {
    if (this.#machine === undefined) return;
    const state = this.#wanted(this.#machine);
    if (state.ruleset === this.#applied?.ruleset) return;
    const startedMs = performance.now();
    await this.#options.run(nft(state.ruleset), signal);
    await this.#noteRules(state.ruleset, signal);
    this.#settled = JSON.stringify(state);
    const endedMs = performance.now();
    this.#restedMs = endedMs + (endedMs - startedMs - batchMs) * restPerApply;
  }

  async #noteRules(ruleset: string, signal: AbortSignal): Promise<void> {
    const rules = await readRules(this.settings.cluster, this.#options.run, signal);
    // Somebody was quicker: then they are not current.
    this.#applied = rules === '' ? undefined : { ruleset, rules };
  }

  async #check(signal: AbortSignal): Promise<void> {
    const { settings } = this;
    const { run } = this.#options;
    this.#hear();
    this.#canMatchBridge ??= await canMatchBridge(run, this.#options.log, signal);
    const devices = [tunnelDevice(settings.vxlanId), settings.wireguard.device];
    const ofDevices = devices.map((device) => `net.ipv4.conf.${device}.rp_filter`);
    const sysctls = ['net.ipv4.ip_forward', migrateSysctl, retriesSysctl, ...ofDevices];
    const { text, received } = await readNetwork(settings, sysctls, run, signal);
    for (const key of this.#reach.hear(received, performance.now())) this.#lost.add(key);
    if (this.#lost.size > 0) {
      this.#right = undefined;
      // What is changed for them nobody else did.
      this.#settled = undefined;
    }
    if (text === this.#right) return;
    const actual = parseNetwork(text, settings);
    const machine = {
      interfaces: actual.interfaces,
      bridgeMac: actual.bridge?.mac,
      canMatchBridge: this.#canMatchBridge,
    };
    this.#machine = machine;
    const { encryption } = this.#known;
    const state = this.#wanted(machine);
    this.#reach.follow(state, performance.now());
    const areRulesCurrent = this.#applied?.ruleset === state.ruleset && this.#applied.rules === actual.rules;
    const changes = difference(actual, state, settings, areRulesCurrent, { given: this.#given, lost: this.#lost });
    const failures: unknown[] = [];
    const done: string[] = [];
    let areTunnelsRight = true;
    for (const change of changes) {
      try {
        await this.#carryOut(change, signal);
        if (change.command.program === 'nft') await this.#noteRules(state.ruleset, signal);
        done.push(change.what);
      } catch (error) {
        if (signal.aborted) throw error;
        if (change.command.program === 'wg') areTunnelsRight = false;
        failures.push(error);
      }
    }
    // Whatever else failed: a peer that was made anew is not made anew again, which would never let it be heard.
    if (areTunnelsRight) {
      this.#lost.clear();
      this.#given = new Map(
        state.wireguard?.peers.flatMap(({ key, endpoint }) => (endpoint === undefined ? [] : [[key, endpoint]])),
      );
    }
    const isDone = failures.length === 0;
    // What cannot be put right hides nothing else: neither the ways, nor what somebody changed and was put right.
    this.#carriedOut = { encryption: isDone ? encryption : this.#carriedOut?.encryption, links: state.links };
    const settled = JSON.stringify(state);
    if (done.length > 0 && settled === this.#settled) this.#tellRepair(done);
    this.#settled = settled;
    if (!isDone) throw oneOf(failures);
    if (actual.bridge === undefined) {
      throw new FlynnError('unavailable', `the bridge ${settings.bridge} is gone: restart the container engine`);
    }
    // Without changes nothing was waited for in here, so this is still so.
    this.#right = changes.length === 0 ? text : undefined;
  }

  async #carryOut({ command, otherwise }: Change, signal: AbortSignal): Promise<void> {
    const { run } = this.#options;
    try {
      await run(command, signal);
    } catch (error) {
      if (signal.aborted || otherwise === undefined) throw error;
      await run(otherwise, signal);
    }
  }

  #tellRepair(whats: readonly string[]): void {
    this.#repairs += 1;
    this.#repairedAt = [...this.#repairedAt, Date.now()].slice(-rememberedRepairs);
    const repaired = [...new Set(whats)];
    this.#options.log.warn({ repaired, repairs: this.#repairs }, 'somebody changed the network, it was put right');
  }

  async #remember(): Promise<void> {
    const text = JSON.stringify(this.#known);
    if (this.#read === undefined || text === this.#remembered) return;
    await remember(this.#options.file, this.#known);
    this.#remembered = text;
  }
}

function oneOf(failures: readonly unknown[]): unknown {
  if (failures.length === 1) return failures[0];
  const [cause] = failures;
  return new FlynnError('unavailable', failures.map(messageOf).join('; '), { cause });
}
