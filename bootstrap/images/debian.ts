/** Debian itself: from an image registry when one answers, else made from Debian's packages. */
import { createReadStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readProgress } from '@flynn/host-agent/docker/images';
import { FlynnError } from '@flynn/kit/errors';
import { withDeadline } from '@flynn/kit/retry';
import type Docker from 'dockerode';
import { askMs, within } from '../machine/engine.ts';
import { hasProgram, runProgram } from '../machine/program.ts';
import type { Machine } from './machine.ts';

/** How long a registry may take to say that it has the image. */
const registryAnswerMs = 4_000;
/** The download itself may take its time, but not stand still. */
const registryQuietMs = 120_000;
const debootstrapMs = 600_000;

export type DebianImage = Readonly<{ ref: string; source: 'registry' | 'packages' | 'present' }>;

/** The reference is for building on only: who asks removes it afterwards unless it was `present`. */
export async function debianImage(
  docker: Docker,
  options: {
    suite: string;
    packages: readonly string[];
    machine: Machine;
    report: (line: string) => void;
    quietMs?: number;
  },
): Promise<DebianImage> {
  const ref = `debian:${options.suite}-slim`;
  if (await hasImage(docker, ref)) return { ref, source: 'present' };
  if (await pull(docker, ref, options.quietMs)) return { ref, source: 'registry' };
  options.report('no image registry answers: making the base image from Debian packages');
  return { ref: await debootstrap(docker, options), source: 'packages' };
}

export async function hasImage(docker: Docker, ref: string, patienceMs = askMs): Promise<boolean> {
  try {
    await within(patienceMs, () => docker.getImage(ref).inspect());
    return true;
  } catch (error) {
    if (statusOf(error) === 404) return false;
    throw error;
  }
}

export function statusOf(error: unknown): number | undefined {
  return error instanceof Error && 'statusCode' in error && typeof error.statusCode === 'number'
    ? error.statusCode
    : undefined;
}

/** False when no registry answers in time or the pull breaks, or stands still: there is another way. */
async function pull(docker: Docker, ref: string, quietMs = registryQuietMs): Promise<boolean> {
  const answer = new AbortController();
  let timer = setTimeout(() => answer.abort(), registryAnswerMs);
  try {
    const progress: NodeJS.ReadableStream = await docker.pull(ref, { abortSignal: answer.signal });
    let isBegun = false;
    for await (const chunk of progress) {
      // The engine answers before it has heard from the registry; its first word on a layer means the registry did.
      isBegun ||= String(chunk).includes('Pulling');
      if (!isBegun) continue;
      clearTimeout(timer);
      timer = setTimeout(() => answer.abort(), quietMs);
    }
    return await hasImage(docker, ref);
  } catch {
    return false;
  } finally {
    clearTimeout(timer);
  }
}

async function debootstrap(
  docker: Docker,
  options: { suite: string; packages: readonly string[]; machine: Machine; report: (line: string) => void },
): Promise<string> {
  if (!hasProgram('mmdebstrap')) {
    if (!hasProgram('apt-get')) {
      throw new FlynnError(
        'unavailable',
        'no image registry answers, and without mmdebstrap the base image cannot be made from Debian packages: install mmdebstrap and debian-archive-keyring, or let the engine reach a registry',
      );
    }
    options.report('installing mmdebstrap');
    const install = ['install', '-qy', '--no-install-recommends', 'mmdebstrap', 'debian-archive-keyring'];
    const env = { DEBIAN_FRONTEND: 'noninteractive' };
    await runProgram('apt-get', ['-q', 'update'], { timeoutMs: 120_000, env });
    await runProgram('apt-get', install, { timeoutMs: 300_000, env });
  }
  const folder = await mkdtemp(join(tmpdir(), 'flynn-debian-'));
  try {
    const archive = join(folder, 'debian.tar');
    const excluded = ['doc', 'man', 'info', 'locale'].map((name) => `--dpkgopt=path-exclude=/usr/share/${name}/*`);
    await runProgram(
      'mmdebstrap',
      [
        '--variant=minbase',
        `--include=${options.packages.join(',')}`,
        ...options.machine.aptOptions.map((line) => `--aptopt=${line.replace(/;$/, '')}`),
        ...excluded,
        // Options of this machine are for this build, not for the image.
        '--customize-hook=rm -f "$1/etc/apt/apt.conf.d/99mmdebstrap" "$1/etc/dpkg/dpkg.cfg.d/99mmdebstrap"',
        options.suite,
        archive,
        ...options.machine.aptSources,
      ],
      { timeoutMs: debootstrapMs },
    );
    const repository = 'flynn/debian';
    const imported = await docker.importImage(createReadStream(archive), {
      repo: repository,
      tag: options.suite,
      changes: 'LABEL flynn.image=1',
      abortSignal: withDeadline(120_000),
    });
    await readProgress(imported);
    return `${repository}:${options.suite}`;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
