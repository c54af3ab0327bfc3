/**
 * Brings an image from a registry into the blob store, once: from then on it is as one that was pushed. What a tag meant
 * then stays what it means for the release, on every host and after the registry is gone; no host needs its login.
 */
import { Readable } from 'node:stream';
import { blobSchema, digestSchema } from '@flynn/blobstore/api';
import { layers as layerRoutes } from '@flynn/controller/collection/api-layers';
import { parseImageConfig, parseJsonAs } from '@flynn/controller/images/image-config';
import { resultOf } from '@flynn/controller/images/image-result';
import { FlynnError, asFlynnError, hasCode, ifFound, messageOf } from '@flynn/kit/errors';
import { Furthest } from '@flynn/kit/furthest';
import { Stall } from '@flynn/kit/stall';
import { z } from 'zod';
import type { Execution } from './execution.ts';
import { patiently } from './execution.ts';
import { Registry, type RegistryAccess, type RegistryPatience } from './registry/client.ts';
import { parseReference } from './registry/reference.ts';

type StoredBlob = z.output<typeof blobSchema>;

const descriptorSchema = z.object({
  mediaType: z.string().default(''),
  digest: digestSchema,
  size: z.int().nonnegative(),
});
type Descriptor = z.output<typeof descriptorSchema>;
const manifestSchema = z.object({ config: descriptorSchema, layers: z.array(descriptorSchema).max(127) });
const indexSchema = z.object({
  manifests: z.array(
    descriptorSchema.extend({ platform: z.object({ os: z.string(), architecture: z.string() }).nullish() }),
  ),
});

const architectures: Readonly<Record<string, string>> = { x64: 'amd64', arm64: 'arm64' };
const layerType = /\.tar(?:$|[.+](?:gzip|zstd)$)|\.diff\.tar/;
/** What a host takes of an image, unpacked: its layers are no larger than that compressed. */
const maxImageBytes = 20 * 2 ** 30;
/** Of all layers together, each of which may take as long as it gets on. Less than what nothing refers to yet is kept for. */
const importDeadlineMs = 12 * 3_600_000;
/** A registry or a blob store that brings nothing more of a layer for so long is not waited for any more. */
const fruitlessMs = 30 * 60_000;

/** Output `resultDigest`: the blob that says what the image is. */
export async function executeImport(
  execution: Execution,
  imageRef: string,
  access: RegistryAccess,
  patience?: RegistryPatience,
): Promise<Record<string, string>> {
  const { write, signal } = execution;
  const reference = parseReference(imageRef);
  const registry = new Registry(reference, access, signal, patience);
  await write(`-----> Fetching ${imageRef}...`);
  let hasTold = false;
  const { manifest, digest } = await patiently('reading the image', execution, async () => {
    try {
      return await findManifest(registry, reference.version);
    } catch (error) {
      // Who waits should know for what.
      if (!hasTold && hasCode(error, 'unavailable', 'timeout')) {
        hasTold = true;
        await write(`       ${messageOf(error)}; trying again for a minute`);
      }
      throw error;
    }
  });
  const foreign = manifest.layers.find(({ mediaType }) => mediaType !== '' && !layerType.test(mediaType));
  if (foreign !== undefined)
    throw new FlynnError('invalid', `${imageRef} is no image to run: it has a ${foreign.mediaType}`);
  const configText = await patiently("reading the image's configuration", execution, () =>
    registry.text(manifest.config.digest),
  );
  const config = parseImageConfig(configText);
  if (config.rootfs.diff_ids.length !== manifest.layers.length) {
    throw new FlynnError('invalid', `${imageRef} has ${manifest.layers.length} layers, its configuration names others`);
  }
  const bytes = manifest.layers.reduce((sum, { size }) => sum + size, 0);
  if (bytes > maxImageBytes) {
    throw new FlynnError(
      'invalid',
      `${imageRef} has ${gib(bytes)} GiB, compressed: no host takes more than ${gib(maxImageBytes)} GiB of an image, unpacked. Make it smaller`,
    );
  }
  const others = await othersOf(manifest.layers, execution);
  const layers: StoredBlob[] = [];
  const untilMs = performance.now() + importDeadlineMs;
  for (const layer of manifest.layers) {
    layers.push(await bring(registry, layer, execution, { isOwn: !others.has(layer.digest), untilMs }));
  }
  const { blobs } = execution;
  const stored = await patiently('storing the image', execution, async (limited) => {
    const put = await blobs.put(configText, { digest: manifest.config.digest, signal: limited });
    const meta = { 'image.ref': imageRef, 'image.digest': digest };
    const result = resultOf({ name: imageRef, config }, { config: put, layers }, {}, { hint: 'push one that does' });
    return blobs.put(JSON.stringify({ ...result, meta: { ...result.meta, ...meta } }), { signal: limited });
  });
  await write(`       ${digest}`);
  return { resultDigest: stored.digest };
}

async function findManifest(registry: Registry, version: string, depth = 0) {
  const { text, digest } = await registry.manifest(version);
  const what = `the manifest ${version}`;
  const found = parseJsonAs(z.union([manifestSchema, indexSchema]), text, what);
  if ('config' in found) return { manifest: found, digest };
  const own = architectures[process.arch] ?? process.arch;
  const fitting = found.manifests.find(({ platform }) => platform?.os === 'linux' && platform.architecture === own);
  if (fitting === undefined || depth > 2) {
    const there = found.manifests.map(({ platform }) => `${platform?.os}/${platform?.architecture}`).join(', ');
    throw new FlynnError('invalid', `the image is not made for linux/${own}, but for ${there}`);
  }
  return findManifest(registry, fitting.digest, depth + 1);
}

/** Those of which only others may have what is stored: a registry that names them has to show that it has them. */
async function othersOf(layers: readonly Descriptor[], execution: Execution): Promise<ReadonlySet<string>> {
  const digests = [...new Set(layers.map(({ digest }) => digest))];
  if (digests.length === 0) return new Set();
  const { controller, operation } = execution;
  const asked = { params: { operation: operation.id }, query: { digests: digests.join(',') } };
  const { missing } = await patiently('asking which layers are there', execution, (signal) =>
    controller.call(layerRoutes.missing, asked, { signal }),
  );
  return new Set(missing);
}

/** What is there already is not fetched. */
async function bring(
  registry: Registry,
  layer: Descriptor,
  execution: Execution,
  { isOwn, untilMs }: { isOwn: boolean; untilMs: number },
): Promise<StoredBlob> {
  const { blobs, write } = execution;
  const { digest, size } = layer;
  const megabytes = `${(size / 1_000_000).toFixed(1)} MB`;
  const furthest = new Furthest();
  return patiently(
    'fetching a layer',
    execution,
    async (signal) => {
      const found = isOwn ? await ifFound(blobs.stat(digest, { signal })) : undefined;
      if (found !== undefined) {
        await write(`       layer of ${megabytes}: there already`);
        return found;
      }
      using stall = new Stall({ what: `fetching ${digest}`, signal });
      const body = stall.watched(furthest.noting(await registry.blob(layer, stall.signal)));
      const limits = { digest, signal: stall.signal, timeoutMs: importDeadlineMs };
      const stored = await blobs.put(Readable.from(upTo(body, layer), { objectMode: false }), limits);
      await write(`       layer of ${megabytes}`);
      return stored;
    },
    {
      deadlineMs: untilMs - performance.now(),
      // A registry that goes on nowhere, as others do, begins anew.
      isRetryable: (error) =>
        // Not `exhausted`: a store without room would be filled again and again.
        hasCode(asFlynnError(error), 'unavailable', 'timeout', 'conflict') && furthest.fruitlessMs < fruitlessMs,
    },
  );
}

/** Nobody stores more for a registry than its manifest says. */
async function* upTo(body: AsyncIterable<Uint8Array>, { digest, size }: Descriptor): AsyncIterable<Uint8Array> {
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > size) {
      throw new FlynnError('invalid', `the registry sends more than the ${size} bytes that ${digest} is to have`);
    }
    yield chunk;
  }
}

function gib(bytes: number): string {
  return (bytes / 2 ** 30).toFixed(1);
}
