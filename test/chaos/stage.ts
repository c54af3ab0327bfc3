/** The cluster of the whole suite, and what holds after every scenario: full health, nothing twice, nothing forgotten. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { ClusterHost } from '@flynn/bootstrap/test-hosts/cluster-host';
import { untilStoreLinked } from '@flynn/bootstrap/test-hosts/cluster-view';
import { FlynnError } from '@flynn/kit/errors';
import { waitFor, withDeadline } from '@flynn/kit/retry';
import type { Cell } from '@flynn/scheduler/cell-view';
import { cellKeys, jobStatusSchema } from '@flynn/scheduler/cell';
import { checkHistory } from '@flynn/scheduler/history';
import type { Store } from '@flynn/store/store';
import type { TestCluster } from '../test-cluster.ts';
import { CellWatch, wrongs } from './cell-watch.ts';
import { Witness } from './witness.ts';
import { type Image, names, put, remove, run, steady } from './workloads.ts';

const healthMs = 240_000;
const runsPerScenario = 3;

export class Stage implements AsyncDisposable {
  readonly cluster: TestCluster;
  readonly store: Store;
  readonly watch: CellWatch;
  readonly witness: Witness;
  readonly image: Image;
  #since: { ms: number; what: string } | undefined;
  #registered: ReadonlyMap<string, number | undefined> = new Map();

  private constructor(parts: { cluster: TestCluster; store: Store; watch: CellWatch; image: Image }) {
    this.cluster = parts.cluster;
    this.store = parts.store;
    this.watch = parts.watch;
    this.image = parts.image;
    this.witness = new Witness(parts.cluster.hosts, [names.single, names.volume]);
  }

  /** On a cluster that is up; with the suite's workloads running. */
  static async open(cluster: TestCluster, image: string): Promise<Stage> {
    const store = await cluster.store();
    const stage = new Stage({ cluster, store, watch: await CellWatch.open(store), image: { image } });
    try {
      await put(store, steady(stage.image));
      await stage.untilHealthy();
      await cluster.flynn(['-a', 'hello', 'scale', `web=${cluster.hosts.length}`]);
      await stage.untilHealthy();
      return stage;
    } catch (error) {
      await stage[Symbol.asyncDispose]();
      throw error;
    }
  }

  get hosts(): readonly ClusterHost[] {
    return this.cluster.hosts;
  }

  get cell(): Cell {
    return this.watch.cell;
  }

  /** Where the only job of a workload is. */
  hostOf(workloadId: string): ClusterHost {
    const [job] = this.cell.jobsOf(workloadId);
    const host = this.hosts.find(({ name }) => name === job?.hostId);
    if (host === undefined) throw new FlynnError('not_found', `${workloadId} has no job`);
    return host;
  }

  others(host: ClusterHost): ClusterHost[] {
    return this.hosts.filter((one) => one !== host);
  }

  /** From here on counts what was started or ended, and which hosts were missed. */
  begin(): void {
    this.witness.begin();
    this.#registered = this.#registrations();
  }

  /** Whose lease ended since then, on a machine that was too slow for it if nothing befell them: all that can move left them. */
  get missed(): string[] {
    const now = this.#registrations();
    return [...this.#registered].flatMap(([name, revision]) => (now.get(name) === revision ? [] : [name]));
  }

  #registrations(): Map<string, number | undefined> {
    return new Map(this.hosts.map(({ name }) => [name, this.cell.hosts.get(name)?.createRevision]));
  }

  /** From here on counts how long full health takes. */
  since(what: string): void {
    this.#since = { ms: performance.now(), what };
  }

  takeSince(): { ms: number; what: string } {
    const since = this.#since;
    this.#since = undefined;
    if (since === undefined) throw new FlynnError('internal', 'a scenario has to say since when health is waited for');
    return since;
  }

  /** Seconds since then, once all that is wanted runs on the hosts that are there, exactly once, and all of them answer. */
  async untilHealthy(hosts = this.hosts): Promise<void> {
    const there = hosts.map(({ name }) => name);
    await this.watch.until((cell) => wrongs(cell, there), { what: 'full health', deadlineMs: healthMs });
    await untilStoreLinked(hosts);
    await Promise.all(hosts.map((host) => this.cluster.untilAnswers('hello', { host })));
    await waitFor(() => this.#strays(hosts).length === 0, {
      what: 'the containers to be those of the cell',
      deadlineMs: 120_000,
      intervalMs: 100,
    }).catch((error: unknown) => {
      throw new FlynnError('timeout', this.#strays(hosts).join('; '), { cause: error });
    });
  }

  /** Containers that no job of the cell asks for, and jobs of the cell without one, among the suite's own. */
  #strays(hosts: readonly ClusterHost[]): string[] {
    this.witness.look();
    const running = this.witness.runs().filter(({ endedMs }) => endedMs === undefined);
    return hosts.flatMap(({ name: hostId }) => {
      const have = running.filter(({ host }) => host === hostId).map(({ name }) => name);
      const want = this.cell
        .jobsOn(hostId)
        .flatMap(({ workloadId }) => (workloadId.startsWith('chaos-') ? [workloadId] : []));
      return have.sort().join() === want.toSorted().join()
        ? []
        : [`${hostId} runs [${have.join()}], not [${want.join()}]`];
    });
  }

  /** Hosts whose engine or agent does not run are started as their boot would. */
  async bootAll(): Promise<void> {
    await Promise.all(this.hosts.map((host) => host.boot()));
  }

  /** Of the jobs of a workload. */
  idsOf(workloadId: string): string[] {
    return this.cell
      .jobsOf(workloadId)
      .map(({ id }) => id)
      .sort();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.witness[Symbol.dispose]();
    await this.watch[Symbol.asyncDispose]();
    await this.store.close();
  }
}

/** One fault and its end; the body says `since` when health is waited for. */
export function scenario(
  theStage: () => Stage,
  name: string,
  body: (stage: Stage, t: TestContext) => Promise<void>,
  { timeoutMs = 1_200_000 }: { timeoutMs?: number } = {},
): void {
  test(name, { timeout: timeoutMs }, async (t) => {
    const stage = theStage();
    const { store, witness } = stage;
    await stage.untilHealthy();
    const from = (await store.list(cellKeys.hosts)).revision;
    const workloads = lasting(stage.cell);
    stage.begin();
    const runs = Array.from({ length: runsPerScenario }, (_, at) => `chaos-run-${from}-${at}`);
    await put(
      store,
      runs.map((id) => run(id, stage.image)),
    );
    try {
      await body(stage, t);
    } catch (error) {
      for (const line of await problems(store)) t.diagnostic(line);
      throw error;
    } finally {
      // Whatever it broke off in, the next one begins with nothing broken.
      await stage.cluster.heal();
      await stage.bootAll();
    }
    await stage.untilHealthy();
    const { ms, what } = stage.takeSince();
    t.diagnostic(`full health ${((performance.now() - ms) / 1_000).toFixed(1)} s after ${what}`);
    await remove(store, runs);

    const signal = withDeadline(180_000, t.signal);
    const { violations, revisions } = await checkHistory(store, { from, signal });
    t.diagnostic(`${revisions} revisions of the cell and ${witness.looks} looks at its containers checked`);
    assert.deepEqual(violations, []);
    assert.deepEqual(witness.doubles, []);
    assert.ok(witness.looks > 20, `only ${witness.looks} looks at the containers`);
    for (const id of runs) assert.ok(witness.runs(id).length <= 1, `${id} ran ${witness.runs(id).length} times`);
    assert.deepEqual(lasting(stage.cell), workloads, 'workloads came or went');
  });
}

/** Workloads that do not end by themselves. */
function lasting(cell: Cell): string[] {
  return [...cell.workloadIds()].filter((id) => cell.workload(id)?.value.kind !== 'ephemeral').sort();
}

/** What hosts say of jobs that they cannot run. */
async function problems(store: Store): Promise<string[]> {
  const { entries } = await store.list(cellKeys.status);
  return entries.flatMap(({ value }) => {
    const { id, state, error } = jobStatusSchema.parse(JSON.parse(value));
    return error === undefined ? [] : [`${id} ${state}: ${error}`];
  });
}
