/**
 * What images bring along that a build begins with: ONBUILD steps run as if the Dockerfile had them, and nobody has checked what
 * those take in. So each is here, and looked at, before the engine begins. Once it has begun, `readBuildProgress` hears of steps
 * that somebody has put under the name since.
 */
import type Docker from 'dockerode';
import { FlynnError, ifFound } from '@flynn/kit/errors';
import type { BaseImage, CallOptions } from '../engine/engine.ts';
import { type ImageContext, ensureNamedImage, inspectImage, pull } from './images.ts';

const architectures: Readonly<Record<string, string>> = { x64: 'amd64', x86_64: 'amd64', aarch64: 'arm64' };
const own = `linux/${architectureOf(process.arch)}`;

function architectureOf(name: string): string {
  return architectures[name] ?? name;
}

/** `invalid` for one that has such steps. */
export async function checkBases(
  context: ImageContext,
  bases: readonly BaseImage[],
  options: CallOptions,
): Promise<void> {
  const platforms = new Map<string, string>();
  for (const { name, platform: given = own } of bases) {
    const platform = normal(given);
    const before = platforms.get(name) ?? platform;
    platforms.set(name, platform);
    // The engine keeps one by a name: it would fetch the other anew, and nobody would have looked at that.
    if (before !== platform)
      throw new FlynnError(
        'invalid',
        `the build begins with ${name} for ${before} and for ${platform}: use one of them`,
      );
    const { Config } = await brought(context, name, platform, options);
    if ((Config?.OnBuild ?? []).length === 0) continue;
    throw new FlynnError(
      'invalid',
      `the image ${name} has ONBUILD steps, and nobody has checked what those take in: write them into the Dockerfile, with an image that has none`,
    );
  }
}

async function brought(
  context: ImageContext,
  name: string,
  platform: string,
  options: CallOptions,
): Promise<Partial<Docker.ImageInspectInfo>> {
  // Without one of another platform it begins with what is here.
  if (platform === own) await ensureNamedImage(context, name, options);
  else if (!(await isHere(context, name, platform, options))) await pull(context, name, { ...options, platform });
  return inspectImage(context, name, options);
}

async function isHere(context: ImageContext, name: string, platform: string, options: CallOptions): Promise<boolean> {
  const image = await ifFound(inspectImage(context, name, options));
  if (image === undefined) return false;
  const { Os, Architecture, Variant = '' } = image;
  return [`${Os}/${Architecture}`, `${Os}/${Architecture}/${Variant}`].includes(platform);
}

/** `amd64` and `linux` say one half of it. */
function normal(platform: string): string {
  const [first = '', ...more] = platform.toLowerCase().split('/');
  if (more.length === 0) return first === 'linux' ? own : `linux/${architectureOf(first)}`;
  const [architecture = '', ...variant] = more;
  return [first, architectureOf(architecture), ...variant].join('/');
}
