/**
 * An app as one file: a tar archive, first `flynn-app.json` with what the app is, then `layers/<digest>` for the record of its
 * build and for each layer of its slug. Written and read as a stream, so that it may be larger than memory.
 */
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { text } from 'node:stream/consumers';
import { artifactSchema, metaSchema, releaseSchema, routeSchema } from '@flynn/controller/model';
import { settingsSchema } from '@flynn/controller/autoscale/model';
import { envSchema } from '@flynn/controller/processes/env';
import { resultMeta, storedBlobs } from '@flynn/controller/images/image-blobs';
import { FlynnError } from '@flynn/kit/errors';
import { extract, pack } from 'tar-stream';
import { z } from 'zod';
import { rolloutSchema } from '@flynn/controller/deployments/rollout-settings';

const manifestName = 'flynn-app.json';
const layerPrefix = 'layers/';

export const appFileSchema = z.object({
  format: z.literal(1),
  app: z.object({
    name: z.string(),
    meta: metaSchema,
    deployTimeoutMs: z.int().positive(),
    rollout: rolloutSchema.optional(),
  }),
  release: releaseSchema.pick({ processes: true, scripts: true, cron: true, meta: true }).extend({ env: envSchema }),
  artifact: artifactSchema.pick({ type: true, image: true, meta: true }),
  counts: z.record(z.string(), z.int().nonnegative()),
  /** Types that are scaled by themselves. */
  autoscale: z.array(z.object({ type: z.string(), ...settingsSchema.shape })).optional(),
  routes: z.array(
    routeSchema.pick({ type: true, domain: true, path: true, port: true, service: true, http: true, tcp: true }),
  ),
  /** Not everybody got in at the route that the cluster gave it, which is not in the file. */
  isClosed: z.boolean().optional(),
  /** What it had of providers, which is not in the file; the variables it got of that are, as they were. */
  resources: z.array(z.object({ provider: z.string(), variables: z.array(z.string()) })).optional(),
});
export type AppFile = z.output<typeof appFileSchema>;

type Artifact = AppFile['artifact'];
type Layer = { digest: string; sizeBytes: number };

export function layersOf({ image }: Artifact): Layer[] {
  return storedBlobs(image);
}

/** As it is where nobody has the record of its build. */
export function withoutRecord<Made extends Pick<Artifact, 'meta'>>(artifact: Made): Made {
  const { [resultMeta]: _record, ...meta } = artifact.meta;
  return { ...artifact, meta };
}

/** Its bytes, as they are read; `open` gives those of a layer. `record`: what the artifact's meta names as that of its build. */
export async function* appFileOf(
  app: AppFile,
  { record, open }: { record: Buffer | undefined; open: (digest: string) => Promise<Readable> },
): AsyncGenerator<Uint8Array, void, undefined> {
  const archive = pack();
  const fill = async (): Promise<void> => {
    archive.entry({ name: manifestName }, JSON.stringify(app, undefined, 2));
    // Before the layers: a file that has all of these was not cut off, and where it has none it was written without.
    const recordDigest = app.artifact.meta[resultMeta];
    if (record !== undefined && recordDigest !== undefined) archive.entry({ name: layerPrefix + recordDigest }, record);
    for (const { digest, sizeBytes } of layersOf(app.artifact)) {
      await pipeline(await open(digest), archive.entry({ name: layerPrefix + digest, size: sizeBytes }));
    }
    archive.finalize();
  };
  const filled = fill().catch((error: unknown) => {
    // Whoever reads gets it.
    archive.destroy(error instanceof Error ? error : new Error(String(error)));
  });
  try {
    yield* archive as AsyncIterable<Buffer>;
  } finally {
    archive.destroy();
    await filled;
  }
}

/**
 * `take` gets each layer, and the record, in its turn and reads it to its end, or leaves it. A file of a version before has no
 * record: the app is answered as one without. Throws `invalid` for what is no such file.
 */
export async function readAppFile(
  input: Readable,
  take: (app: AppFile, digest: string, body: Readable) => Promise<void>,
): Promise<AppFile> {
  const archive = extract();
  const reading = pipeline(input, archive);
  let app: AppFile | undefined;
  const found = new Set<string>();
  const read = async (): Promise<void> => {
    for await (const entry of archive) {
      const { name } = entry.header;
      if (name === manifestName) app = parseManifest(await text(entry));
      else if (name.startsWith(layerPrefix)) {
        if (app === undefined) throw noAppFile(`it does not begin with ${manifestName}`);
        const digest = name.slice(layerPrefix.length);
        await take(app, digest, Readable.from(entry));
        found.add(digest);
      }
      entry.resume();
    }
  };
  try {
    await Promise.all([read(), reading]);
  } catch (error) {
    archive.destroy();
    if (error instanceof FlynnError) throw error;
    throw noAppFile(error instanceof Error ? error.message : String(error));
  }
  if (app === undefined) throw noAppFile(`there is no ${manifestName} in it`);
  const missing = layersOf(app.artifact).filter(({ digest }) => !found.has(digest));
  if (missing.length > 0) throw noAppFile(`${missing.length} of its layers are missing: it was cut off`);
  return found.has(app.artifact.meta[resultMeta] ?? '') ? app : { ...app, artifact: withoutRecord(app.artifact) };
}

function parseManifest(json: string): AppFile {
  try {
    return appFileSchema.parse(JSON.parse(json));
  } catch (error) {
    const why = error instanceof z.ZodError ? z.prettifyError(error) : String(error);
    throw noAppFile(`${manifestName} is not as it should be: ${why}`);
  }
}

function noAppFile(why: string): FlynnError {
  return new FlynnError('invalid', `this is no file that "flynn export" wrote: ${why}`);
}
