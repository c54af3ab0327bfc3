/** Images as archives, made of layers that are given. For tests. */
import { createHash } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { gunzipSync } from 'node:zlib';
import { pack } from 'tar-stream';

type Files = Record<string, string | Buffer | undefined>;

export function digestOf(bytes: Buffer): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
}

export async function tarOf(files: Files): Promise<Buffer> {
  const archive = pack();
  for (const [name, content] of Object.entries(files)) if (content !== undefined) archive.entry({ name }, content);
  archive.finalize();
  return buffer(archive);
}

/** Of an image that starts `/serve`, unless told otherwise. */
export function configOf(
  plainLayers: readonly Buffer[],
  more: object = {},
  config: object = { Cmd: ['/serve'] },
): string {
  const rootfs = { type: 'layers', diff_ids: plainLayers.map(digestOf) };
  return JSON.stringify({ os: 'linux', architecture: 'amd64', config, rootfs, ...more });
}

/** As `docker save` writes them. */
export function savedFiles(plainLayers: readonly Buffer[]): Files {
  const names = plainLayers.map((_, place) => `${place}/layer.tar`);
  return {
    ...Object.fromEntries(plainLayers.map((layer, place) => [names[place] ?? '', layer])),
    'config.json': configOf(plainLayers),
    'manifest.json': JSON.stringify([{ Config: 'config.json', RepoTags: ['shop:latest'], Layers: names }]),
  };
}

/** An OCI image layout; layers may be compressed. */
export function layoutFiles(layers: readonly Buffer[], plainLayers = layers.map(plain)): Files {
  const config = Buffer.from(configOf(plainLayers));
  const descriptor = (bytes: Buffer): object => ({ mediaType: 'x', digest: digestOf(bytes), size: bytes.length });
  const manifest = Buffer.from(JSON.stringify({ config: descriptor(config), layers: layers.map(descriptor) }));
  const annotations = { 'org.opencontainers.image.ref.name': 'shop:2' };
  const blobs = [config, manifest, ...layers].map((bytes) => [`blobs/${digestOf(bytes).replace(':', '/')}`, bytes]);
  return {
    'oci-layout': JSON.stringify({ imageLayoutVersion: '1.0.0' }),
    'index.json': JSON.stringify({ manifests: [{ ...descriptor(manifest), annotations }] }),
    ...(Object.fromEntries(blobs) as Files),
  };
}

function plain(layer: Buffer): Buffer {
  return layer.readUInt16BE(0) === 0x1f8b ? gunzipSync(layer) : layer;
}
