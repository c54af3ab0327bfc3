/**
 * The steps from a machine to a cluster, on the host that makes it. Each looks first and does only what is missing, so that all
 * may be repeated.
 */
import { readFile } from 'node:fs/promises';
import { totalmem } from 'node:os';
import { readLiveKeys } from '@flynn/controller/access/live-keys';
import { askController, withController } from '../platform/controller-client.ts';
import { domainsOf, formerDomainsOf, moved, withoutFormer } from '../domain/domain.ts';
import { addTwins, dropRoutes } from '../domain/routes.ts';
import { checkDoor } from '../platform/doors.ts';
import type { Instance } from '@flynn/discovery/api';
import { createDiscoveryClient } from '@flynn/discovery/client';
import { readSealingKeys } from '@flynn/host-agent/cluster/sealing-keys';
import { hostAuthoritiesOf, shownBehind } from '@flynn/host-agent/trust/authorities';
import { fingerprintOf } from '@flynn/kit/certificate';
import { systemClock } from '@flynn/kit/clock';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { withDeadline } from '@flynn/kit/retry';
import { readRing } from '@flynn/store/sealing/ring';
import type { Store } from '@flynn/store/store';
import { readBuilderEnv } from '../platform/builder-env.ts';
import { addCluster, ensureSshKey, writeKnownHosts } from '../cli/config.ts';
import { ensureController, removeFirstController, withStore } from '../platform/controller.ts';
import { ensureKeeper } from '@flynn/host-agent/cluster/keeper';
import { platformImagesPut } from '@flynn/host-agent/cluster/platform-images';
import { ensureLease } from '../joining/admission.ts';
import { type AuthorityWork, beginAuthority, changeAuthority, checkBeginning } from '../rotation/authority-change.ts';
import { ensureControllerCertificate, ensureRouteCertificate } from '../joining/certificates.ts';
import { engineAt } from '../machine/engine.ts';
import { checkStoreData, ensureEtcd, tellEtcdImage } from '../platform/etcd.ts';
import type { ImageName } from '../images/recipes.ts';
import { isRestored, restoredParts } from '../restore/from-backup.ts';
import { examinedHosts, hostsOf, sickMembers } from '../update/host-move.ts';
import { type SystemApp, controllerApp, dashboardApp, manifestOf } from '../platform/manifest.ts';
import { type KnownAs, configuredText } from '../cli/known-as.ts';
import { knownCluster } from '../cli/pinned-cluster.ts';
import { addFirstKeys, takesFirstKeys } from '../platform/first-keys.ts';
import { lackingText } from '../platform/lacking.ts';
import { leftCountsPut, readLeftCounts, stillLeft, withLeft } from '../platform/left-counts.ts';
import { type Outcome, Platform } from '../platform/platform.ts';
import { listVolumes } from '../leaving/removal.ts';
import { type RestoreContext, placesOf, restoreRecordsStep, restoreSteps } from '../restore/steps.ts';
import { beginning, closing, isOpen, knownRootKeys, rootKeysOf, withLiveKeys } from '../rotation/rotation.ts';
import { tellAuthority, tellRotation } from '../rotation/entry.ts';
import { pushSample, sampleName, sampleStanding, untilAnswers } from '../platform/sample-app.ts';
import { type Cluster, gatewayOf } from '../settings.ts';
import { appUrlOf, controllerNameOf, controllerUrlOf, dashboardNameOf, gitHostOf, gitUrlOf } from '../domain/urls.ts';
import { ensureSealing, tellControllersSeal, unsealedText } from '../rotation/sealing.ts';
import { announceNext, sealAnew, untilRewritten } from '../rotation/sealing-key-change.ts';
import { sealingKeysOf, withRingsKey, withSealed, withoutSealingChange } from '../rotation/sealing-key-round.ts';
import { ensureHostKey, withLatestAuthorities } from '../state.ts';
import { checkKept, keepHostKey, whileKept } from '../keeper/take-over.ts';
import { type Report } from './timed.ts';
import { engineStep, imagesStep, platformImages, runAgent, shortMs, writeHostFiles } from './host.ts';
import type { Context, Step } from './step.ts';

/** A router has a certificate that it is told of at once, or when it is there again. */
const certificateMs = 60_000;

/**
 * In their order; a step may answer with a word on what it found. For the host that made the cluster. After those of `base`
 * other hosts can join; those of `platform` are theirs to carry, too.
 */
export function stepsOf(context: Context): { base: Step[]; platform: Step[] } {
  const { options, person, backup } = context;
  let { cluster } = context;
  const stateDir = options.FLYNN_STATE_DIR;
  const gateway = gatewayOf(cluster.subnet);
  const host = () => ({ stateDir, cluster, log: silentLogger() });
  let images: ReadonlyMap<ImageName, string> = new Map();
  let hostPublicKey = '';
  let isOwnCertificate = false;

  const withPlatform = <T>(task: (platform: Platform) => Promise<T>): Promise<T> =>
    withController(host(), (client) => task(new Platform(client)));
  /** From here on the next `up` goes on with it, too. */
  const become = async (next: Cluster): Promise<void> => {
    cluster = next;
    await writeHostFiles(stateDir, cluster);
  };
  /** Other hosts fetch the new one from this one's agent from then on. */
  const openSealingRound = async (store: Store): Promise<void> => {
    await become(withRingsKey(cluster, (await readRing(store))?.ring, await readSealingKeys(stateDir)));
    try {
      await announceNext(store, cluster);
    } catch (error) {
      if (hasCode(error, 'conflict')) await become(withoutSealingChange(cluster));
      throw error;
    }
  };
  const manifest = async (): Promise<SystemApp[]> => {
    const hostKey = await ensureHostKey(stateDir);
    const builderEnv = await readBuilderEnv(context.env);
    const controllerCertificate = await ensureControllerCertificate(stateDir, cluster);
    const apps = manifestOf({
      cluster,
      images,
      sshHostKey: hostKey.privateKey,
      sshHostPublicKey: hostKey.publicKey,
      builderEnv,
      controllerCertificate,
      hostMemoryBytes: totalmem(),
    });
    if (backup === undefined) return apps;
    const places = () => withStore(host(), (store) => placesOf(store, cluster.hostId));
    return await restoredParts(apps, backup, { stateDir, places });
  };
  const sampleStep = (): Step => ({
    title: `Sample app ${sampleName}`,
    run: async (report) => {
      const url = appUrlOf(sampleName, cluster);
      return withPlatform(async (platform) => {
        const existing = await platform.find(sampleName);
        const standing = sampleStanding(existing, cluster.sample);
        if (standing === 'live') {
          await become({ ...cluster, sample: 'live' });
          return 'there already';
        }
        if (standing === 'gone') {
          await become({ ...cluster, sample: 'gone' });
          return 'was deleted, and stays so';
        }
        if (existing === undefined) await platform.createApp(sampleName);
        const key = await ensureSshKey(person);
        const knownHostsFile = await writeKnownHosts(person, gitHostOf(cluster), cluster.gitPort, hostPublicKey);
        await pushSample({ gitUrl: gitUrlOf(cluster), key, knownHostsFile, report });
        await untilAnswers(url, 30_000);
        await become({ ...cluster, sample: 'live' });
        return 'pushed, built and live';
      });
    },
  });
  // Before any controller takes it for nobody's.
  const dropStep = (former: string): Step => ({
    title: `Domain ${former}`,
    run: async () => {
      const outcome = await withController(host(), (client) => dropRoutes(client, cluster, former));
      await become(withoutFormer(cluster, former));
      return outcome;
    },
  });
  // Once all controllers give new apps their route there.
  const moveStep: Step = {
    title: `Domain ${cluster.domain}`,
    run: async (report) => {
      const outcome = await withController(host(), (client) => addTwins(client, cluster, report));
      await become(moved(cluster));
      return outcome;
    },
  };
  const showToPeople = async (): Promise<boolean> => {
    const showsOwn = async (domain: string): Promise<boolean> => {
      const route = await ensureRouteCertificate(stateDir, cluster, { part: 'controller', domain });
      const name = controllerNameOf({ domain });
      // Who knows the authority before this one alone takes it by that one's word.
      return await withPlatform((platform) => platform.ensureCertificate(name, route, shownBehind(cluster)));
    };
    for (const domain of formerDomainsOf(cluster)) await showsOwn(domain);
    return await showsOwn(cluster.domain);
  };
  /** By the names that are its own; what leads to an app of somebody is theirs. With a word on what is not there. */
  const showDashboard = async (): Promise<string> =>
    withPlatform(async (platform) => {
      if (!(await platform.hasOwn(dashboardApp))) {
        const name = dashboardNameOf(cluster);
        const why = `is called ${dashboardApp}, announces a service of that name, or has a route at ${name}`;
        return `; without a web page, for an app of somebody ${why}`;
      }
      const names = domainsOf(cluster).map((domain) => dashboardNameOf({ domain }));
      const own = await platform.namesOf(dashboardApp, names);
      for (const domain of domainsOf(cluster)) {
        if (!own.includes(dashboardNameOf({ domain }))) continue;
        const route = await ensureRouteCertificate(stateDir, cluster, { part: 'dashboard', domain });
        await platform.ensureCertificate(dashboardNameOf({ domain }), route, shownBehind(cluster));
      }
      const taken = names.filter((name) => !own.includes(name));
      return taken.length === 0 ? '' : `; ${taken.join(', ')} is not the web page's, for an app of somebody has it`;
    });
  const rememberCluster = async (deadlineMs: number): Promise<KnownAs> => {
    const former = { keys: knownRootKeys(cluster), domains: formerDomainsOf(cluster) };
    return await addCluster(person, await knownCluster(cluster, deadlineMs), former);
  };
  const deployControllers = async (report: Report): Promise<void> => {
    const controller = await controllerOf(manifest);
    await withPlatform((platform) => platform.ensureApp(controller, report));
  };
  const forgetFormer = async (): Promise<void> => {
    await withPlatform((platform) => platform.removeReleases(controllerApp, isOfOtherTime(cluster)));
  };
  const authorityStep: Step = {
    title: 'Authority',
    run: async (report) => {
      const work: AuthorityWork = {
        withStore: (task) => withStore(host(), task),
        become,
        deployControllers,
        async showToPeople() {
          await showToPeople();
          await showDashboard();
          await rememberCluster(certificateMs);
        },
        forgetFormer,
        tell: (told, outcome) => withStore(host(), (store) => tellAuthorityOf(store, told, outcome)),
        report,
        clock: systemClock,
      };
      if (context.nextAuthority !== undefined && cluster.authorityChange === undefined) {
        const sick = await sickMembers(host(), await withStore(host(), hostsOf));
        const hosts = await examinedHosts(host());
        await withStore(host(), (store) => checkBeginning(store, { sick, hosts }));
        await beginAuthority(work, cluster, context.nextAuthority);
      }
      await changeAuthority(work, cluster);
      return `made anew: ${fingerprintOf(cluster.authority.certificate)}`;
    },
  };
  const restore = (): RestoreContext => ({ host: host(), gateway, images });

  const base: Step[] = [
    engineStep(options, cluster),
    imagesStep(options, (made) => {
      images = made;
    }),
    {
      title: 'Host agent and store',
      isWhole: true,
      run: async (report) => {
        await checkStoreData({ cluster: cluster.name, stateDir }, () =>
          listVolumes(engineAt(options.FLYNN_DOCKER_SOCKET), cluster.name, { signal: withDeadline(shortMs) }),
        );
        // Images took minutes, in which the agent may have taken over a round.
        await become(await withLatestAuthorities(stateDir, cluster));
        const { name, hostId, address } = cluster;
        await ensureEtcd({ cluster: name, hostId, address, stateDir, image: images.get('etcd') ?? '' });
        const outcome = await runAgent({ options, cluster }, report);
        await withStore(host(), async (store) => {
          const own = { hostId, since: new Date().toISOString() };
          await checkKept(store, { stateDir, cluster }, await ensureKeeper(store, own));
          await ensureSealing(store, cluster);
          await openSealingRound(store);
          await ensureLease(store, cluster);
          await tellEtcdImage(store, images.get('etcd') ?? '');
          await checkDoor(store, cluster.hostId);
          await keepHostKey(store, stateDir);
        });
        hostPublicKey = (await ensureHostKey(stateDir)).publicKey;
        return outcome;
      },
    },
    ...(backup === undefined ? [] : [restoreRecordsStep(backup, restore)]),
  ];
  const platform: Step[] = [
    ...(context.dropDomain === undefined ? [] : [dropStep(context.dropDomain)]),
    {
      title: 'Controller',
      run: async (report) => {
        await withStore(host(), async (store) => {
          await become(withLiveKeys(cluster, await readLiveKeys(store, controllerApp), beginning()));
          await tellRotation(store, cluster, 'begun');
        });
        const controller = await controllerOf(manifest);
        const started = await withStore(host(), async (store) => {
          await using discovery = createDiscoveryClient({ url: `http://${gateway}:1111` });
          const ask = (instance: Instance) => askController(host(), instance);
          return await ensureController(store, controller, { discovery, ask, report });
        });
        const outcome = await withPlatform((platform) => platform.ensureApp(controller, report));
        const removed = await withStore(host(), removeFirstController);
        return started === 'started' || removed > 0 ? 'started, and made an app of itself' : outcome;
      },
    },
    ...(cluster.domains?.isMoving === true ? [moveStep] : []),
    {
      // Before the services: whichever of them fails is looked at with it.
      title: 'The flynn command',
      run: async () => {
        isOwnCertificate = await showToPeople();
        const known = await rememberCluster(shortMs);
        await writeKnownHosts(person, gitHostOf(cluster), cluster.gitPort, hostPublicKey);
        const isBack = backup === undefined ? undefined : await isRestored(stateDir, backup);
        if (takesFirstKeys(cluster, isBack)) {
          const { publicFiles } = await ensureSshKey(person);
          const publicKeys = await Promise.all(publicFiles.map((file) => readFile(file, 'utf8')));
          await withPlatform((platform) => addFirstKeys(platform, publicKeys));
        }
        return configuredText(person.configDir, known);
      },
    },
    {
      title: 'Services of the platform',
      run: async (report) => {
        const left = await withStore(host(), (store) =>
          readLeftCounts(store, { signal: withDeadline(shortMs), report }),
        );
        const services = (await manifest())
          .filter((app) => app.name !== controllerApp)
          .map((app) => withLeft(app, left));
        const outcomes = await withPlatform((platform) =>
          context.isUpdate === true ? oneByOne(platform, services, report) : platform.ensureApps(services, report),
        );
        const became = new Map(services.map(({ name }, index) => [name, outcomes[index] ?? 'failed']));
        const page = await showDashboard();
        const lacking = await withPlatform((platform) => lackingText(became, page, (name) => platform.hasOwn(name)));
        await untilAnswers(controllerUrlOf(cluster), 60_000);
        await rememberCluster(isOwnCertificate ? certificateMs : shortMs);
        if (isOpen(cluster) || cluster.sealingKeyChange?.next !== undefined) {
          await withStore(host(), (store) => sealAnew(store, { stateDir, cluster, report }));
          const sealed = withSealed(cluster);
          await become(isOpen(sealed) ? closing(sealed) : sealed);
          await deployControllers(report);
        }
        if (cluster.rootKeyChange !== undefined || cluster.sealingKeyChange !== undefined) await forgetFormer();
        const unsealed = await withStore(host(), async (store) => {
          await store.transact({
            then: [platformImagesPut(platformImages(images)), leftCountsPut(stillLeft(left, became))],
          });
          await tellControllersSeal(store, cluster);
          if (cluster.sealingKeyChange !== undefined) await untilRewritten(store, report);
          await tellRotation(store, cluster, 'done');
          return await ensureSealing(store, cluster);
        });
        const isSealedAnew = cluster.sealingKeyChange !== undefined;
        await become(withoutSealingChange(cluster));
        const changed = outcomes.filter((outcome) => outcome === 'created' || outcome === 'updated').length;
        const what = `${changed === 0 ? 'unchanged' : `${changed} deployed`}${lacking}`;
        return `${what}${isSealedAnew ? '; secrets are sealed under a new key' : ''}${unsealedText(unsealed)}`;
      },
    },
    ...(context.nextAuthority === undefined && cluster.authorityChange === undefined ? [] : [authorityStep]),
    ...(backup === undefined ? (context.isUpdate === true ? [] : [sampleStep()]) : restoreSteps(backup, restore)),
  ];
  const kept = (step: Step) => whileKept(step, (task) => withStore(host(), (store) => task(store, host())));
  return { base, platform: platform.map(kept) };
}

async function controllerOf(manifest: () => Promise<SystemApp[]>): Promise<SystemApp> {
  const controller = (await manifest()).find((app) => app.name === controllerApp);
  if (controller === undefined) throw new FlynnError('internal', 'the manifest has no controller');
  return controller;
}

/** Whether a rollback to it would bring back a former root key, sealing key or authority. */
function isOfOtherTime(cluster: Cluster): (env: Readonly<Record<string, string>>) => boolean {
  const rootKeys = rootKeysOf(cluster).join(',');
  const sealingKeys = sealingKeysOf(cluster).join(',');
  const authorities = hostAuthoritiesOf(cluster);
  return ({ FLYNN_CONTROLLER_KEY: root, FLYNN_SEALING_KEY: sealing, FLYNN_ETCD_CA: ca }) =>
    root !== rootKeys || sealing !== sealingKeys || ca !== authorities;
}

async function tellAuthorityOf(store: Store, cluster: Cluster, outcome: 'begun' | 'done'): Promise<void> {
  const { authorityChange: change } = cluster;
  if (change !== undefined) await tellAuthority(store, cluster, change, outcome);
}

/** In the manifest's order, in which whoever is asked comes before who asks. */
async function oneByOne(platform: Platform, wanted: readonly SystemApp[], report: Report): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  for (const app of wanted) outcomes.push(await platform.ensureApp(app, report));
  return outcomes;
}
