/** The steps from a machine to a cluster. Each looks first and does only what is missing, so that all may be repeated. */
import { readFile } from 'node:fs/promises';
import { totalmem } from 'node:os';
import { createDiscoveryClient } from '@flynn/discovery/client';
import { fingerprintOf } from '@flynn/kit/certificate';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { cellKeys } from '@flynn/scheduler/cell';
import { type AgentSetup, agentEnvironment, agentLog, ensureAgent, isAgentRunning, setupOf } from './agent.ts';
import { readBuilderEnv } from './builder-env.ts';
import { type Person, addCluster, ensureSshKey, writeKnownHosts } from './cli-config.ts';
import { ensureController, removeFirstController, withStore } from './controller.ts';
import { ensureEngine } from './engine.ts';
import { readSettings } from '@flynn/host-agent/host-settings';
import { platformImagesPut } from '@flynn/host-agent/cluster/platform-images';
import { ensureLease, writeAdmission } from './admission.ts';
import { ensureControllerCertificate, ensureHostCertificate, ensureRouteCertificate } from './certificates.ts';
import { ensureEtcd, readEtcdImage, tellEtcdImage, updateEtcd } from './etcd.ts';
import { loadImages } from './bundle/images.ts';
import { ensureImages } from './images/build.ts';
import type { ImageName } from './images/recipes.ts';
import { type Backup, withSettings } from './from-backup.ts';
import { type SystemApp, controllerApp, controllerService, manifestOf } from './manifest.ts';
import { imagesOf, isInstalled, readBundle } from './origin.ts';
import { openCluster, pinnedCluster, untilPinned } from './pinned-cluster.ts';
import { type Outcome, Platform } from './platform.ts';
import { type RestoreContext, restoreRecordsStep, restoreSteps } from './restore-steps.ts';
import { pushSample, sampleName, untilAnswers } from './sample-app.ts';
import { type Cluster, type Options, appUrlOf, controllerUrlOf, gatewayOf, gitHostOf, gitUrlOf } from './settings.ts';
import { ensureSealing, tellControllersSeal, unsealedText, writeSealingKey } from './sealing.ts';
import { ensureHostKey, writeCluster } from './state.ts';
import { type Report, timed } from './timed.ts';
import { roundsOf, withoutFormerRound } from './token-rounds.ts';

const agentMs = 120_000;
/** A router that runs already answers at once. */
const shortMs = 2_000;

export type Context = Readonly<{
  options: Options;
  cluster: Cluster;
  person: Person;
  env: Record<string, string | undefined>;
  /** What the cluster is to have from its beginning. */
  backup?: Backup;
  /** Only what is there already is brought up to date, one app after the other. */
  isUpdate?: boolean;
}>;

export type Step = Readonly<{ title: string; run: (report: Report) => Promise<string | void> }>;

/**
 * In their order; a step may answer with a word on what it found. For the host that made the cluster. After those of `base`
 * other hosts can join; those of `platform` are theirs to carry, too.
 */
export function stepsOf(context: Context): { base: Step[]; platform: Step[] } {
  const { options, cluster, person, backup } = context;
  const stateDir = options.FLYNN_STATE_DIR;
  const gateway = gatewayOf(cluster.subnet);
  const setup = setupOf(options, cluster);
  const host = { stateDir, cluster, log: silentLogger() };
  let images: ReadonlyMap<ImageName, string> = new Map();
  let hostPublicKey = '';
  let isOwnCertificate = false;

  const withPlatform = async <T>(task: (platform: Platform) => Promise<T>): Promise<T> => {
    await using discovery = createDiscoveryClient({ url: `http://${gateway}:1111` });
    const baseUrl = async (): Promise<string> => `http://${(await discovery.resolve(controllerService)).address}`;
    const client = new HttpClient({ baseUrl, key: cluster.controllerKey, name: 'the controller', timeoutMs: 30_000 });
    try {
      return await task(new Platform(client));
    } finally {
      await client.close();
    }
  };
  const knownCluster = async (deadlineMs: number): Promise<Parameters<typeof addCluster>[1]> =>
    isOwnCertificate && (await untilPinned(cluster, deadlineMs)) ? pinnedCluster(cluster) : openCluster(cluster);
  const manifest = async (settled = cluster): Promise<SystemApp[]> => {
    const hostKey = await ensureHostKey(stateDir);
    const builderEnv = await readBuilderEnv(context.env);
    const controllerCertificate = await ensureControllerCertificate(stateDir, cluster);
    const apps = manifestOf({
      cluster: settled,
      images,
      sshHostKey: hostKey.privateKey,
      sshHostPublicKey: hostKey.publicKey,
      builderEnv,
      controllerCertificate,
      hostMemoryBytes: totalmem(),
    });
    return backup === undefined ? apps : apps.map((app) => withSettings(app, backup.inspection.platform));
  };
  const sampleStep = (): Step => ({
    title: `Sample app ${sampleName}`,
    run: async (report) => {
      const url = appUrlOf(sampleName, cluster);
      return withPlatform(async (platform) => {
        const existing = await platform.find(sampleName);
        if (existing?.releaseId !== undefined) return 'there already';
        if (existing === undefined) await platform.createApp(sampleName);
        const key = await ensureSshKey(person);
        const knownHostsFile = await writeKnownHosts(person, gitHostOf(cluster), cluster.gitPort, hostPublicKey);
        await pushSample({ gitUrl: gitUrlOf(cluster), key, knownHostsFile, report });
        await untilAnswers(url, 30_000);
        return 'pushed, built and live';
      });
    },
  });
  const restore = (): RestoreContext => ({ host, gateway, images });

  const base: Step[] = [
    engineStep(options),
    imagesStep(options, (made) => {
      images = made;
    }),
    {
      title: 'Host agent and store',
      run: async (report) => {
        await writeCluster(stateDir, cluster);
        hostPublicKey = (await ensureHostKey(stateDir)).publicKey;
        const own = await ensureHostCertificate(stateDir, cluster);
        await writeAdmission(stateDir, cluster, own);
        await writeSealingKey(stateDir, cluster);
        const { name, hostId, address } = cluster;
        await ensureEtcd({ cluster: name, hostId, address, stateDir, image: images.get('etcd') ?? '' });
        const outcome = await ensureAgent(
          setup,
          agentEnvironment(options, cluster),
          fingerprintOf(cluster.authority.certificate),
        );
        await untilDiscovery(setup, gateway, report);
        await withStore(host, async (store) => {
          await ensureSealing(store, cluster);
          await ensureLease(store, cluster);
          await tellEtcdImage(store, images.get('etcd') ?? '');
        });
        return outcome === 'unchanged' ? 'running' : outcome;
      },
    },
    ...(backup === undefined ? [] : [restoreRecordsStep(backup, restore)]),
  ];
  const platform: Step[] = [
    {
      title: 'Controller',
      run: async (report) => {
        const controller = (await manifest()).find((app) => app.name === controllerApp);
        if (controller === undefined) throw new FlynnError('internal', 'the manifest has no controller');
        const started = await withStore(host, async (store) => {
          await using discovery = createDiscoveryClient({ url: `http://${gateway}:1111` });
          return await ensureController(store, discovery, controller, report);
        });
        const outcome = await withPlatform((platform) => platform.ensureApp(controller, report));
        const removed = await withStore(host, removeFirstController);
        return started === 'started' || removed > 0 ? 'started, and made an app of itself' : outcome;
      },
    },
    {
      // Before the services: whichever of them fails is looked at with it.
      title: 'The flynn command',
      run: async () => {
        const route = await ensureRouteCertificate(stateDir, cluster);
        const { hostname } = new URL(controllerUrlOf(cluster));
        isOwnCertificate = await withPlatform((platform) =>
          platform.ensureCertificate(hostname, route, cluster.authority.certificate),
        );
        await addCluster(person, await knownCluster(shortMs));
        await writeKnownHosts(person, gitHostOf(cluster), cluster.gitPort, hostPublicKey);
        const key = await ensureSshKey(person);
        const publicKeys = await Promise.all(key.publicFiles.map((file) => readFile(file, 'utf8')));
        await withPlatform(async (platform) => {
          for (const publicKey of publicKeys) await platform.addKey(publicKey.trim());
        });
        return `configured in ${person.configDir}`;
      },
    },
    {
      title: 'Services of the platform',
      run: async (report) => {
        const services = (await manifest()).filter((app) => app.name !== controllerApp);
        const outcomes = await withPlatform((platform) =>
          context.isUpdate === true ? oneByOne(platform, services, report) : platform.ensureApps(services, report),
        );
        await untilAnswers(controllerUrlOf(cluster), 60_000);
        await addCluster(person, await knownCluster(60_000));
        if (roundsOf(cluster).former !== undefined) {
          const settled = withoutFormerRound(cluster);
          const controller = (await manifest(settled)).filter((app) => app.name === controllerApp);
          await withPlatform((platform) => platform.ensureApps(controller, report));
          await writeCluster(stateDir, settled);
        }
        const unsealed = await withStore(host, async (store) => {
          await store.transact({ then: [platformImagesPut(platformImages(images))] });
          await tellControllersSeal(store, cluster);
          return await ensureSealing(store, cluster);
        });
        const changed = outcomes.filter((outcome) => outcome !== 'unchanged').length;
        return `${changed === 0 ? 'unchanged' : `${changed} deployed`}${unsealedText(unsealed)}`;
      },
    },
    ...(backup === undefined ? (context.isUpdate === true ? [] : [sampleStep()]) : restoreSteps(backup, restore)),
  ];
  return { base, platform };
}

/** In the manifest's order, in which whoever is asked comes before who asks. */
async function oneByOne(platform: Platform, wanted: readonly SystemApp[], report: Report): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  for (const app of wanted) outcomes.push(await platform.ensureApp(app, report));
  return outcomes;
}

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

function engineStep(options: Options): Step {
  return {
    title: 'Container engine',
    run: async () => {
      const engine = { socket: options.FLYNN_DOCKER_SOCKET, stateDir: options.FLYNN_STATE_DIR };
      return (await ensureEngine(engine)).wasStarted ? 'started' : 'running';
    },
  };
}

/** For a host that joined: it runs what the others give it, or its bundle has, and builds nothing. */
export function joinStepsOf(context: Context): Step[] {
  const { cluster, person } = context;
  return [
    ...hostStepsOf(context),
    {
      title: 'The flynn command',
      run: async () => {
        // At a host that was there before: here the router is only about to start.
        const isPinned = await untilPinned(cluster, shortMs, cluster.peers[0]);
        await addCluster(person, isPinned ? pinnedCluster(cluster) : openCluster(cluster));
        return `configured in ${person.configDir}`;
      },
    },
  ];
}

/** What of a host that joined is its own, whoever asks for it. */
export function hostStepsOf({ options, cluster }: Pick<Context, 'options' | 'cluster'>): Step[] {
  const stateDir = options.FLYNN_STATE_DIR;
  const setup = setupOf(options, cluster);
  return [
    engineStep(options),
    ...(isInstalled ? [imagesStep(options, () => {})] : []),
    {
      title: 'Host agent',
      run: async (report) => {
        await writeCluster(stateDir, cluster);
        const own = await ensureHostCertificate(stateDir, cluster);
        await writeAdmission(stateDir, cluster, own);
        await writeSealingKey(stateDir, cluster);
        const outcome = await ensureAgent(
          setup,
          agentEnvironment(options, cluster),
          fingerprintOf(cluster.authority.certificate),
        );
        await untilDiscovery(setup, gatewayOf(cluster.subnet), report);
        return outcome === 'unchanged' ? 'running' : outcome;
      },
    },
    {
      title: `Host ${cluster.hostId} in the cluster`,
      run: async () => {
        let unsealed: readonly string[] = [];
        const { cordoned } = await withStore({ stateDir, cluster, log: silentLogger() }, async (store) => {
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
          return await readSettings(store, hostId, { signal: AbortSignal.timeout(30_000) });
        });
        // By somebody, or by a `down` that was broken off.
        const closed = cordoned ? `; it is closed to jobs: flynn host uncordon ${cluster.hostId} opens it` : '';
        return `${cluster.address}, containers in ${cluster.subnet}${closed}${unsealedText(unsealed)}`;
      },
    },
  ];
}

/** Those that jobs run; their parents come with them. */
export function platformImages(images: ReadonlyMap<ImageName, string>): string[] {
  return [...images].filter(([name]) => name !== 'base' && name !== 'node').map(([, tag]) => tag);
}

/** Of the kernel's own table: a bridge that nothing is attached to yet is missing from lists of running interfaces. */
async function isOwnAddress(address: string): Promise<boolean> {
  const lines = (await readFile('/proc/net/fib_trie', 'utf8')).split('\n').map((line) => line.trim());
  return lines.some((line, index) => line === `|-- ${address}` && lines[index + 1] === '/32 host LOCAL');
}

/** The agent serves discovery once it reaches the store, which may be some way into a slow machine's boot. */
async function untilDiscovery(setup: AgentSetup, gateway: string, report: Report): Promise<void> {
  await using discovery = createDiscoveryClient({ url: `http://${gateway}:1111` });
  const waiting = { what: 'waiting for the host agent and the store', deadlineMs: agentMs + 5_000, report };
  try {
    await timed(waiting, (signal) =>
      waitFor(
        async () => {
          // Before the bridge is there, the address may be somebody else's, somewhere out there.
          if (!(await isOwnAddress(gateway))) return false;
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
}
