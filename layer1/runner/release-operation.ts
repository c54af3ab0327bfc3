/** Makes an artifact and a release of what was built. */
import { apps, operations, releases } from '@flynn/controller/api';
import { type Operation, type Release, buildResultSchema } from '@flynn/controller/model';
import { FlynnError } from '@flynn/kit/errors';
import type { Execution } from './execution.ts';
import { patiently } from './execution.ts';
import { processesOf } from './release-plan.ts';

/** In a release's meta: a release that was made before its answer got lost is found by it. */
const operationMeta = 'flynn.operation';

/** Output `releaseId`. */
export async function executeRelease(execution: Execution): Promise<Record<string, string>> {
  const { write } = execution;
  await write('-----> Creating release...');
  const digest = (await operationBefore(execution)).output['resultDigest'];
  if (digest === undefined) throw new FlynnError('invalid', 'the build left no result: push again');
  const release = await patiently('creating the release', execution, (signal) =>
    createRelease(digest, { ...execution, signal }),
  );
  await write(`       v${release.version} created`);
  return { releaseId: release.id };
}

/** The operation this one builds on. */
export async function operationBefore(execution: Execution): Promise<Operation> {
  const { operation, controller } = execution;
  const [dependsOn] = operation.dependsOn ?? [];
  if (dependsOn === undefined)
    throw new FlynnError('invalid', `the ${operation.kind} has nothing before it: push again`);
  return patiently('reading the operation before', execution, (signal) =>
    controller.call(operations.get, { params: { operation: dependsOn } }, { signal }),
  );
}

async function createRelease(
  digest: string,
  { operation, controller, blobs, slugRunnerImage, signal }: Execution,
): Promise<Release> {
  const params = { app: operation.appId };
  const made = (await controller.call(releases.list, { params }, { signal })).find(
    (release) => release.meta[operationMeta] === operation.id,
  );
  if (made !== undefined) return made;
  const text = Buffer.concat(await (await blobs.get(digest, { signal })).toArray()).toString();
  const result = buildResultSchema.parse(JSON.parse(text));
  const { commit = '', branch = '' } = operation.input;
  const meta: Record<string, string> = {
    git: 'true',
    [operationMeta]: operation.id,
    ...(commit === '' ? {} : { 'git.commit': commit }),
    ...(branch === '' ? {} : { 'git.branch': branch }),
    buildpack: result.buildpack,
  };
  const app = await controller.call(apps.get, { params }, { signal });
  const live =
    app.releaseId === undefined
      ? undefined
      : await controller.call(releases.get, { params: { ...params, release: app.releaseId } }, { signal });
  const artifact = await controller.call(
    releases.createArtifact,
    {
      body: {
        type: 'slug',
        image: { base: slugRunnerImage, layers: result.layers },
        meta: { ...result.meta, buildpack: result.buildpack, sizeBytes: String(result.sizeBytes) },
      },
    },
    { signal },
  );
  const processes = processesOf(result, live?.processes ?? {});
  return controller.call(releases.create, { params, body: { artifactId: artifact.id, processes, meta } }, { signal });
}
