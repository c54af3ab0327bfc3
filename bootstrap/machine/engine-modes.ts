/** Is a container engine one that hosts can be made of? Modes of its daemon rule out what the platform stands on. */
import { FlynnError } from '@flynn/kit/errors';
import { z } from 'zod';
import { askEngine } from './engine.ts';
import type { Problem } from './preflight.ts';

const infoSchema = z.object({
  DockerRootDir: z.string().default('/var/lib/docker'),
  /** As `name=seccomp,profile=builtin`. */
  SecurityOptions: z
    .array(z.string())
    .nullish()
    .transform((options) => options ?? []),
  /** Only where somebody has set them. */
  DefaultAddressPools: z
    .array(z.object({ Base: z.string() }))
    .nullish()
    .transform((pools) => pools ?? []),
});

/** `pools`: of which it gives networks that say no addresses theirs. */
export type EngineFacts = Readonly<{ dataDir: string; modes: readonly EngineMode[]; pools: readonly string[] }>;
export type EngineMode = keyof typeof unfit;

const unfit = {
  userns: {
    what: 'the container engine maps the users of its containers to others (userns-remap), and gives none the network of the host: etcd and the router need it',
    remedy:
      'take "userns-remap" out of /etc/docker/daemon.json and of the options of dockerd, and start it again (systemctl restart docker). Containers and volumes of before stay in its folder of before',
  },
  rootless: {
    what: 'the container engine runs without root (rootless), in a network of its own: no other host reaches its containers',
    remedy:
      'give the socket of an engine that root runs in FLYNN_DOCKER_SOCKET, or install one (on Debian: apt-get install docker.io)',
  },
  snap: {
    what: 'the container engine is that of a snap, which is shut in: it sees neither /tmp nor /var/lib of the machine, and gives its containers none of what hosts put there for them',
    remedy:
      'take it away, with what is in it (snap remove docker), and run the same command again: on Debian and Ubuntu it installs docker.io; or give the socket of another engine in FLYNN_DOCKER_SOCKET',
  },
} as const satisfies Record<string, Problem>;

/** All that snaps keep is below. */
const snapsFolder = '/var/snap/';

export async function readEngine(socket: string): Promise<EngineFacts> {
  return engineFacts(await askEngine(socket, (docker) => docker.info()));
}

/** `info`: what the engine says of itself. */
export function engineFacts(info: unknown): EngineFacts {
  const { DockerRootDir, SecurityOptions, DefaultAddressPools } = infoSchema.parse(info);
  const told = SecurityOptions.flatMap((option) => option.split(','));
  const isMode = (name: string): name is EngineMode => Object.hasOwn(unfit, name);
  const modes = told.map((part) => part.replace(/^name=/, '')).filter(isMode);
  if (DockerRootDir.startsWith(snapsFolder)) modes.push('snap');
  return { dataDir: DockerRootDir, modes, pools: DefaultAddressPools.map(({ Base }) => Base) };
}

export function engineProblems(modes: readonly EngineMode[]): Problem[] {
  return modes.map((mode) => unfit[mode]);
}

/** Of one that could not be asked before it was started. `conflict`; `done` says what was changed by then. */
export async function refuseUnfitEngine(socket: string, { done }: { done: string }): Promise<void> {
  const [problem] = engineProblems((await readEngine(socket)).modes);
  if (problem !== undefined) throw new FlynnError('conflict', `${problem.what}: ${problem.remedy}. ${done}`);
}

const liveSchema = z.object({
  LiveRestoreEnabled: z.boolean(),
  Swarm: z.object({ LocalNodeState: z.string() }).optional(),
});

/** For people, of what the engine says of itself: what its next upgrade does. Its configuration is theirs to change. */
export function upgradeText(info: unknown): string {
  const { data } = liveSchema.safeParse(info);
  if (data === undefined || data.LiveRestoreEnabled) return '';
  // An engine in a swarm refuses it.
  if (data.Swarm !== undefined && data.Swarm.LocalNodeState !== 'inactive') return '';
  return `An upgrade of the container engine, which machines may do by themselves at night, ends everything on this host, etcd too.
  With "live-restore": true in /etc/docker/daemon.json and systemctl reload docker, containers run on (docs/operating.md)\n`;
}

/** Nothing of an engine that does not say. */
export async function readUpgradeText(socket: string): Promise<string> {
  try {
    return upgradeText(await askEngine(socket, (docker) => docker.info()));
  } catch {
    return '';
  }
}
