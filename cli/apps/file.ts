/**
 * An app as one file: a tar archive, first `flynn-app.json` with what the app is, then `layers/<digest>` for each layer of its
 * slug. Written and read as a stream, so that it may be larger than memory.
 */
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { text } from 'node:stream/consumers';
import { artifactSchema, metaSchema, releaseSchema, routeSchema } from '@flynn/controller/model';
import { settingsSchema } from '@flynn/controller/autoscale/model';
import { envSchema } from '@flynn/controller/processes/env';
import { storedBlobs } from '@flynn/controller/images/image-blobs';
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
  /** What it had of providers, which is not in the file; the variables it got of that are, as they were. */
  resources: z.array(z.object({ provider: z.string(), variables: z.array(z.string()) })).optional(),
});
export type AppFile = z.output<typeof appFileSchema>;

type Layer = { digest: string; sizeBytes: number };

export function layersOf({ image }: AppFile['artifact']): Layer[] {
  return storedBlobs(image);
}

/** Its bytes, as they are read; `open` gives those of a layer. */
export async function* appFileOf(
  app: AppFile,
  open: (digest: string) => Promise<Readable>,
): AsyncGenerator<Uint8Array, void, undefined> {
  const archive = pack();
  const fill = async (): Promise<void> => {
    archive.entry({ name: manifestName }, JSON.stringify(app, undefined, 2));
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

/** `take` gets each layer in its turn and reads it to its end, or leaves it. Throws `invalid` for what is no such file. */
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
  return app;
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
