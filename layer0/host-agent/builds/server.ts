/** Builds of images for the jobs of this host. */
import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { asFlynnError, ifFound } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { type BuildEvent, buildRoutes } from './api.ts';
import type { Engine, FetchBlob } from '../engine/engine.ts';

export function buildHandlers(
  engine: Pick<Engine, 'buildImage' | 'ensureImage' | 'imageEnv'>,
  fetchBlob: FetchBlob,
): Handler[] {
  return [
    handle(buildRoutes.build, async ({ params, body, signal }) => {
      const { contextDigest, ...rest } = body;
      const context = await fetchBlob(contextDigest, { signal });
      const ending = new AbortController();
      const answer = new PassThrough();
      answer.once('close', () => ending.abort());
      const either = AbortSignal.any([signal, ending.signal]);
      // A client that reads slowly slows its build down.
      const tell = async (event: BuildEvent): Promise<void> => {
        if (!answer.write(`${JSON.stringify(event)}\n`)) await once(answer, 'drain', { signal: either });
      };
      const build = { ...rest, id: params.build, context, onText: (line: string) => tell({ line }) };
      void engine.buildImage(build, { signal: either }).then(
        (image) => answer.end(`${JSON.stringify({ image } satisfies BuildEvent)}\n`),
        (error: unknown) => {
          const { code, message } = asFlynnError(error);
          answer.end(`${JSON.stringify({ error: { code, message } } satisfies BuildEvent)}\n`);
        },
      );
      return { body: answer };
    }),
    handle(buildRoutes.ensureImage, async ({ body, signal }) => {
      const ensure = async (): Promise<{ name: string; env?: Record<string, string> }> => {
        const name = await engine.ensureImage(body.image, { signal });
        const env = await ifFound(engine.imageEnv(name, { signal }));
        return env === undefined ? { name } : { name, env };
      };
      const ensured = await ensure();
      // Somebody may have removed it since it was last looked for.
      return ensured.env === undefined ? ensure() : ensured;
    }),
  ];
}
