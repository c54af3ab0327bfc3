/** What does Layer 0 have to run to build an app? */
import { jobTemplateSchema } from '@flynn/scheduler/job-template';
import { appBuildLimits, buildLimitsOf } from './limits.ts';
import { constraintsOf, ephemeral, identityOf, metaOf, priorities, roomOf } from '../processes/compile.ts';
import type { CompiledWorkload, Runnable, RunnableApp } from '../processes/compile.ts';
import type { Process } from '../processes/process.ts';

/** Where builds fetch sources and caches from, and leave layers. */
const blobService = 'blobstore';
const controllerService = 'controller';
/** The builder ends a build that takes too long and says so; this much later its host does. */
const buildGraceMs = 60_000;

export type Build = {
  app: RunnableApp;
  appEnv: Readonly<Record<string, string>>;
  operationId: string;
  /** How often it was lost before. */
  losses?: number;
  sourceDigest: string;
  commit: string;
  /** What whoever runs the cluster gives to builds: over the builder's own variables. */
  runnerEnv?: Readonly<Record<string, string>>;
  /** Of a source with a Dockerfile. */
  dockerfile?: { slugRunnerImage: string; /** If the app names one. */ path?: string | undefined };
  /** What its app asks for its builds is among this. */
  meta?: Readonly<Record<string, string>>;
};

/** A run of the slug builder for another app: the builder's release runs, the app's name and log it carries. */
export function compileBuild(builder: Runnable, process: Process, build: Build): CompiledWorkload {
  const { runnerEnv = {} } = build;
  const settings = { ...builder.release.env, ...runnerEnv };
  const limits = buildLimitsOf(settings);
  const own = appBuildLimits(settings, build.meta ?? {}, process.memoryBytes);
  const memoryBytes = own.memory.value;
  const template = jobTemplateSchema.parse({
    image: builder.artifact.image,
    ...(process.entrypoint === undefined ? {} : { entrypoint: process.entrypoint }),
    ...(process.command === undefined ? {} : { command: process.command }),
    env: {
      ...builder.release.env,
      ...process.env,
      ...runnerEnv,
      ...givenNames(runnerEnv),
      FLYNN_APP_ID: build.app.id,
      FLYNN_APP_NAME: build.app.name,
      FLYNN_RELEASE_ID: builder.release.id,
      FLYNN_PROCESS_TYPE: 'build',
      FLYNN_OPERATION_ID: build.operationId,
      FLYNN_SOURCE_DIGEST: build.sourceDigest,
      FLYNN_COMMIT: build.commit,
      FLYNN_BUILD_DISK: String(own.disk.value),
      FLYNN_BUILD_TIMEOUT: `${own.time.value}ms`,
      FLYNN_APP_ENV: JSON.stringify(build.appEnv),
      ...(build.dockerfile === undefined ? {} : dockerfileEnv(builder, build.dockerfile, memoryBytes)),
    },
    meta: metaOf({ ...builder, app: build.app }, 'build'),
    // What runs in a build is the app's code: it reaches no more of the platform than the blob store, found by its name in
    // discovery, where its host's agent lets it read and nothing else: see host-agent/discovery/askers.ts. Of a
    // Dockerfile none of it runs in this job, which asks its host to build, and the controller of what.
    group: build.app.id,
    access: build.dockerfile === undefined ? ['discovery'] : ['discovery', 'agents'],
    ...identityOf(builder.app, builder.release, [process]),
    links: build.dockerfile === undefined ? [blobService] : [blobService, controllerService],
    ...roomOf({ memoryBytes, cpuMillis: process.cpuMillis }),
    pidsLimit: limits.FLYNN_BUILD_PIDS,
    tempDiskBytes: own.disk.value,
    volumes: process.volumes,
    hostNetwork: process.hostNetwork,
    ...(process.user === undefined ? {} : { user: process.user }),
    ...(process.workingDirectory === undefined ? {} : { workingDirectory: process.workingDirectory }),
    stopTimeoutMs: process.stopTimeoutMs,
    restart: 'never',
    maxRuntimeMs: own.time.value + buildGraceMs,
  });
  const workload = ephemeral(
    buildWorkloadId(build.app.id, build.operationId, build.losses),
    template,
    priorities.build,
  );
  return { ...workload, ...constraintsOf(process) };
}

/** What is no setting of the build itself is for the programs it runs. */
function givenNames(runnerEnv: Readonly<Record<string, string>>): { FLYNN_BUILD_ENV?: string } {
  const names = Object.keys(runnerEnv).filter((name) => !name.startsWith('FLYNN_'));
  return names.length === 0 ? {} : { FLYNN_BUILD_ENV: names.toSorted().join(',') };
}

/** What the builder tells the engine; `memory` is that of each step. */
function dockerfileEnv(
  { artifact: { image } }: Runnable,
  { slugRunnerImage, path }: NonNullable<Build['dockerfile']>,
  memoryBytes: number,
): Record<string, string> {
  return {
    FLYNN_BUILD_KIND: 'dockerfile',
    FLYNN_BUILD_MEMORY: `${Math.floor(memoryBytes / 1024)}K`,
    FLYNN_SLUG_RUNNER_IMAGE: slugRunnerImage,
    // A builder of a version before refuses to begin with it, rather than to build another.
    ...(path === undefined ? {} : { FLYNN_BUILD_DOCKERFILE: path }),
    ...('name' in image ? { FLYNN_SLUG_BUILDER_IMAGE: image.name } : {}),
  };
}

/** `losses`: how often it was lost before. Types have no dot in their names. */
export function buildWorkloadId(appId: string, operationId: string, losses = 0): string {
  return `${appId}-build${losses === 0 ? '' : `.${losses + 1}`}-${operationId}`;
}

/** The operation that a build's workload is of; none for other workloads. */
export function buildOperationOf(workloadId: string): string | undefined {
  return /^[^-]+-build(?:\.\d+)?-(.+)$/.exec(workloadId)?.[1];
}
