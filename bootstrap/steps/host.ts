/** The steps of a host, whichever of the cluster: its engine, images, agent, and its place in the cluster. */
import { type LiveKeys, readLiveKeys } from '@flynn/controller/access/live-keys';
import { createDiscoveryClient } from '@flynn/discovery/client';
import { fingerprintOf } from '@flynn/kit/certificate';
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { cellKeys } from '@flynn/scheduler/cell';
import { type Ring, readRing } from '@flynn/store/sealing/ring';
import { type AgentSetup, agentEnvironment, agentLog, ensureAgent, isAgentRunning, setupOf } from '../agent/agent.ts';
import { isGivenUp } from '../agent/program.ts';
import { addCluster } from '../cli/config.ts';
import { withStore } from '../platform/controller.ts';
import { ensureEngine } from '../machine/engine.ts';
import { refuseUnfitEngine } from '../machine/engine-modes.ts';
import { readKeeper } from '@flynn/host-agent/cluster/keeper';
import { addSealingKeys, readSealingKeys } from '@flynn/host-agent/cluster/sealing-keys';
import { readSettings } from '@flynn/host-agent/hosts/settings';
import { ownAddresses } from '@flynn/host-agent/hosts/own-addresses';
import { ensureLease, writeAdmission } from '../joining/admission.ts';
import { ensureHostCertificate } from '../joining/certificates.ts';
import { readEtcdImage, updateEtcd } from '../platform/etcd.ts';
import { loadImages } from '../bundle/images.ts';
import { ensureImages } from '../images/build.ts';
import { type ImageName, recipes } from '../images/recipes.ts';
import { unkeptText } from '../keeper/keeping.ts';
import { controllerApp, controllerService } from '../platform/manifest.ts';
import { commands, imagesOf, isInstalled, readBundle } from '../origin.ts';
import { configuredText } from '../cli/known-as.ts';
import { knownCluster } from '../cli/pinned-cluster.ts';
import { type Cluster, type Options, gatewayOf } from '../settings.ts';
import { ensureSealing, unsealedText } from '../rotation/sealing.ts';
import { sealingKeysOf, withRingsKey } from '../rotation/sealing-key-round.ts';
import { withLatestAuthorities, writeCluster } from '../state.ts';
import { type Report, timed } from './timed.ts';
import type { Context, Step } from './step.ts';
import { refuseUnclaimed } from '../machine/unclaimed.ts';

const agentMs = 120_000;
/** An agent that serves does so sooner. */
const refusalMs = 10_000;
/** A router that runs already answers at once. */
export const shortMs = 2_000;

/** From the bundle this was installed from, or built from the repository. */
export function imagesStep(options: Options, keep: (images: ReadonlyMap<ImageName, string>) => void): Step {
  return {
    title: 'Images',
    run: async (report) => {
      const { FLYNN_DOCKER_SOCKET: socket, FLYNN_STATE_DIR: stateDir } = options;
      const { docker } = await ensureEngine({ socket, stateDir });
      const bundle = readBundle();
      if (bundle !== undefined) {
        const loaded = await loadImages(docker, bundle, report);
        keep(imagesOf(bundle));
        return loaded === 0 ? 'unchanged' : `${loaded} loaded`;
      }
      let built = 0;
      const countBuilt = (line: string): void => {
        if (line.startsWith('built ')) built += 1;
        report(line);
      };
      keep(await ensureImages({ docker, report: countBuilt }));
      return built === 0 ? 'unchanged' : `${built} built`;
    },
  };
}

export function engineStep(options: Options, cluster: Pick<Cluster, 'name' | 'hostId' | 'hasPlatform'>): Step {
  return {
    title: 'Container engine',
    run: async () => {
      const engine = { socket: options.FLYNN_DOCKER_SOCKET, stateDir: options.FLYNN_STATE_DIR };
      const { wasStarted } = await ensureEngine(engine);
      // What is in it could not be looked at before.
      const { name, hasPlatform, hostId } = cluster;
      const done = `The container engine was started, and nothing else was changed here${hasPlatform ? '' : `. ${leasedText(hostId)}`}`;
      if (wasStarted) {
        await refuseUnclaimed(options, { name, command: commands.up, done });
        await refuseUnfitEngine(engine.socket, { done });
      }
      return wasStarted ? 'started' : 'running';
    },
  };
}

/** For one that the cluster let in, and that cannot be a host yet. */
export function leasedText(hostId: string): string {
  return `In the cluster a subnet is kept for this host: joining again takes that, flynn host remove ${hostId} gives it back`;
}

/** For a host that joined: it runs what the others give it, or its bundle has, and builds nothing. */
export function joinStepsOf(context: Context): Step[] {
  const { person } = context;
  let cluster = context.cluster;
  return [
    ...hostStepsOf(context, (known) => {
      cluster = known;
    }),
    {
      title: 'The flynn command',
      run: async () => {
        // At one that was there before: here the router is only about to start, or there is to be none.
        const known = await knownCluster(cluster, shortMs, cluster.peers);
        const former = { keys: [context.cluster.controllerKey] };
        return configuredText(person.configDir, await addCluster(person, known, former));
      },
    },
  ];
}

/** What of a host that joined is its own, whoever asks for it. `keep` is told the cluster as it is by now. */
export function hostStepsOf(
  { options, cluster: begun }: Pick<Context, 'options' | 'cluster'>,
  keep: (cluster: Cluster) => void = () => {},
): Step[] {
  const stateDir = options.FLYNN_STATE_DIR;
  let cluster = begun;
  return [
    engineStep(options, cluster),
    ...(isInstalled ? [imagesStep(options, () => {})] : []),
    {
      title: 'Host agent',
      run: async (report) => {
        // Images take minutes, in which the agent may have taken over a round.
        cluster = await withLatestAuthorities(stateDir, cluster);
        await writeHostFiles(stateDir, cluster);
        return await runAgent({ options, cluster }, report);
      },
    },
    {
      title: `Host ${cluster.hostId} in the cluster`,
      run: async () => {
        let unsealed: readonly string[] = [];
        let unkept = '';
        const { cordoned, drain } = await withStore({ stateDir, cluster, log: silentLogger() }, async (store) => {
          await ensureLease(store, cluster);
          const image = await readEtcdImage(store);
          const { name, hostId, address } = cluster;
          if (image !== undefined) await updateEtcd({ cluster: name, hostId, address, stateDir, image });
          await waitFor(async () => (await store.get(cellKeys.host(cluster.hostId))) !== undefined, {
            what: `host ${cluster.hostId} to take jobs`,
            deadlineMs: 60_000,
            intervalMs: 200,
          });
          unsealed = await ensureSealing(store, cluster);
          unkept = unkeptText(cluster, await readKeeper(store));
          const { ring } = (await readRing(store)) ?? {};
          const known = await asItIs(stateDir, cluster, { ring, live: await readLiveKeys(store, controllerApp) });
          await writeHostFiles(stateDir, known);
          keep(known);
          return await readSettings(store, hostId, { signal: AbortSignal.timeout(30_000) });
        });
        // By somebody, or by a `down` that was broken off.
        const closed =
          cordoned || drain !== undefined
            ? `; it is closed to jobs: flynn host uncordon ${cluster.hostId} opens it`
            : '';
        return `${cluster.address}, containers in ${cluster.subnet}${closed}${unkept}${unsealedText(unsealed)}`;
      },
    },
  ];
}

/**
 * As it is now: keys and domain may have become others since this host was told, while it was away or as it joined, and its agent
 * may have taken over a round of authorities as it started. `live`, `ring`: as the store has them.
 */
export async function asItIs(
  stateDir: string,
  cluster: Cluster,
  { ring, live }: { ring: Ring | undefined; live: LiveKeys | undefined },
): Promise<Cluster> {
  const known = withRingsKey(await withLatestAuthorities(stateDir, cluster), ring, await readSealingKeys(stateDir));
  return live === undefined ? known : { ...known, controllerKey: live.rootKeys[0], domain: live.domain };
}

const parents: ReadonlySet<string> = new Set(Object.values(recipes).map(({ parent }) => parent ?? ''));

/** Those that jobs run, of this version or another; their parents come with them. */
export function platformImages(images: Iterable<readonly [name: string, tag: string]>): string[] {
  return [...images].filter(([name]) => !parents.has(name)).map(([, tag]) => tag);
}

/** What an agent starts from, and lets others join with. */
export async function writeHostFiles(stateDir: string, cluster: Cluster): Promise<void> {
  await writeCluster(stateDir, cluster);
  const own = await ensureHostCertificate(stateDir, cluster);
  await writeAdmission(stateDir, cluster, own);
  await addSealingKeys(stateDir, sealingKeysOf(cluster));
}

/** Resolves when it serves, with a word on what was found. */
export async function runAgent(
  { options, cluster }: Pick<Context, 'options' | 'cluster'>,
  report: Report,
): Promise<string> {
  const setup = setupOf(options, cluster);
  const authority = fingerprintOf(cluster.authority.certificate);
  const { what, program } = await ensureAgent(setup, agentEnvironment(options, cluster), authority);
  const refusal = () => refusalOf(options.FLYNN_STATE_DIR, cluster);
  await untilDiscovery(setup, { gateway: gatewayOf(cluster.subnet), program, refusal, report });
  return what === 'unchanged' ? 'running' : what;
}

/** Why the store takes this host for nobody of its cluster, if it does: that does not end by waiting. */
async function refusalOf(stateDir: string, cluster: Cluster): Promise<FlynnError | undefined> {
  try {
    const own = cellKeys.host(cluster.hostId);
    await withStore({ stateDir, cluster, log: silentLogger() }, (store) => store.get(own));
  } catch (error) {
    if (!hasCode(error, 'unauthenticated')) return undefined;
    const what = `the cluster does not know this host: ${messageOf(error)}`;
    const remedy = `Where its authority was made anew while this host was away: ${commands.token} on another host, then ${commands.join} here; what is on this host stays. Else look at this machine's clock`;
    return new FlynnError('unauthenticated', `${what}\n${remedy}`, { cause: error });
  }
  return undefined;
}

type AgentWait = {
  gateway: string;
  program: string;
  /** Asked while it does not serve. */
  refusal: () => Promise<FlynnError | undefined>;
  report: Report;
};

/** The agent serves discovery once it reaches the store, which may be some way into a slow machine's boot. */
async function untilDiscovery(setup: AgentSetup, { gateway, program, refusal, report }: AgentWait): Promise<void> {
  let isOther = false;
  let refused: FlynnError | undefined;
  let nextLookMs = performance.now() + refusalMs;
  await using discovery = createDiscoveryClient({ url: `http://${gateway}:1111` });
  const waiting = { what: 'waiting for the host agent and the store', deadlineMs: agentMs + 5_000, report };
  try {
    await timed(waiting, (signal) =>
      waitFor(
        async () => {
          isOther = await isGivenUp(setup.stateDir, program);
          if (isOther) return true;
          if (performance.now() >= nextLookMs) {
            refused = await refusal();
            if (refused !== undefined) return true;
            nextLookMs = performance.now() + refusalMs;
          }
          // Before the bridge is there, the address may be somebody else's, somewhere out there.
          if (!(await ownAddresses()).has(gateway)) return false;
          await discovery.instances(controllerService);
          return true;
        },
        { what: 'the host agent', deadlineMs: agentMs, intervalMs: 100, signal },
      ),
    );
  } catch (error) {
    const running = (await isAgentRunning(setup)) ? 'runs but does not serve' : 'does not run';
    throw new FlynnError(
      'unavailable',
      `the host agent ${running}: ${messageOf(error)}\nIts last lines:\n${await agentLog(setup, 5)}`,
      { cause: error },
    );
  }
  if (refused !== undefined) throw refused;
  if (isOther) throw await givenUp(setup);
}

/** With what it said before it was given up. */
export async function givenUp(setup: AgentSetup): Promise<FlynnError> {
  const lines = (await agentLog(setup, 200)).split('\n');
  const end = lines.findLastIndex((line) => line.includes('did not come up')) + 1 || lines.length;
  const said = lines.slice(Math.max(0, end - 12), end).join('\n');
  const what = 'the host agent of this version does not come up, and the one before runs again';
  return new FlynnError('unavailable', `${what}. Its last lines:\n${said}`);
}
