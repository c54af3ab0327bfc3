/** How a job is run: all that its host needs to know, and nothing of where or how often. */
import { z } from 'zod';
import { checkRoleNames, portSchema } from './ports.ts';
import { resourcesSchema } from './resources.ts';

const blobSchema = z.object({
  digest: z.string().regex(/^sha256:[0-9a-f]{64}$/),
  sizeBytes: z.int().nonnegative(),
});

/** Where a job's root file system comes from. */
export const imageSchema = z.union([
  /** An image the host already has or can pull, by name. */
  z.object({ name: z.string().min(1) }),
  /** An image by name with layers (zstd or gzip tar blobs of the blob store, unpacked at `/`) stacked on it, lowest first. */
  z.object({
    base: z.string().min(1),
    layers: z.array(blobSchema),
  }),
  /**
   * A whole image: its configuration, which names the plain tar files of its layers, and these (plain, zstd or gzip), lowest
   * first. All blobs of the blob store.
   */
  z.object({ config: blobSchema, layers: z.array(blobSchema) }),
]);
export type Image = z.output<typeof imageSchema>;

/** A whole image's configuration is some kilobytes, and is read at once. */
export const maxImageConfigBytes = 8 * 1024 ** 2;

/** What a job may have that does not say: processes and threads, open files of each process. */
export const defaultPids = 2_048;
export const defaultFiles = 10_000;
/** What it may write outside its volumes that does not say, on a disk four times as large at least: else a quarter of that. */
export const defaultTempDiskBytes = 10 * 1024 ** 3;

/** Keys of the store that jobs share, and nobody else has: see host-agent/keyspaces. */
export const keyspaceSchema = z.object({
  name: z.string().regex(/^[a-z0-9-]{1,63}$/, 'lower-case letters, digits and dashes, at most 63'),
  /** Of the password that a job shows to be let in: it has that from elsewhere. */
  keyDigest: z.string().regex(/^sha256:[0-9a-f]{64}$/),
});
export type Keyspace = z.output<typeof keyspaceSchema>;

export const jobTemplateSchema = z.object({
  image: imageSchema,
  entrypoint: z.array(z.string()).optional(),
  command: z.array(z.string()).optional(),
  env: z.record(z.string(), z.string()).default({}),
  /** Labels of the container and attributes in discovery: app, release, type … Layer 0 gives them no meaning. */
  meta: z.record(z.string(), z.string()).default({}),
  ports: z.array(portSchema).superRefine(checkRoleNames).default([]),
  /** What is set aside for the job on its host: the unit of packing. */
  resources: resourcesSchema,
  /** What it may use: memory is a hard limit, cpu its weight under contention. Default: what is set aside. */
  limits: resourcesSchema.optional(),
  pidsLimit: z.int().positive().default(defaultPids),
  filesLimit: z.int().positive().default(defaultFiles),
  /**
   * What it may write outside its volumes; beyond it the job is stopped, and begins anew without what it wrote. Default:
   * 10 GiB, a quarter of the host's disk where that is less, filled in by the host.
   */
  tempDiskBytes: z.int().positive().optional(),
  /** Size of /dev/shm. Default: the engine's, 64 MiB. */
  shmBytes: z.int().positive().optional(),
  volumes: z
    .array(
      z.object({
        name: z.string(),
        path: z.string().startsWith('/'),
        isReadOnly: z.boolean().optional(),
        /** One can do without what is in it: when its host is lost or drained the job goes on elsewhere, with an empty one. */
        isReplaceable: z.boolean().optional(),
        /** Several jobs may have it at once, each host has one of its own: a cache of whole files. It keeps nobody anywhere. */
        isShared: z.boolean().optional(),
      }),
    )
    .default([]),
  /** Runs in the host's network: its ports are the host's ports. */
  hostNetwork: z.boolean().default(false),
  /** Jobs of one group reach each other at the ports they announce. Default: the workload's id. */
  group: z.string().min(1).optional(),
  /** Services of other groups it may reach as well, by their names in discovery: at the announced ports, nowhere else. */
  links: z.array(z.string().min(1)).default([]),
  /** Parts of the platform it may reach: discovery's HTTP API, host agents' APIs, etcd, every announced service. */
  access: z.array(z.enum(['discovery', 'agents', 'store', 'services'])).default([]),
  /** May read and write its keys, at a door of its host: FLYNN_KEYSPACE_URL. One in the host's network is not let in. */
  keyspace: keyspaceSchema.optional(),
  /** Of the platform's own: the app as which its host gives it a certificate, in FLYNN_IDENTITY_DIR. */
  identity: z
    .string()
    .regex(/^[a-z0-9][a-z0-9-]*$/)
    .optional(),
  /** It shows that wherever it can, for those too whose requests it passes on: nobody has to take its key alone. */
  isAlwaysIdentified: z.boolean().optional(),
  tty: z.boolean().default(false),
  /** Keeps stdin open for an attached client; the job ends when that client is gone if `tty`. */
  stdin: z.boolean().default(false),
  user: z.string().optional(),
  workingDirectory: z.string().optional(),
  /** TERM, this long, then KILL. */
  stopTimeoutMs: z.int().positive().default(30_000),
  /** How long requests in flight may go on after the job left discovery, before TERM. */
  drainMs: z.int().nonnegative().default(0),
  /** A service job that ends is started again with back-off; an ephemeral one never. */
  restart: z.enum(['always', 'never']).default('always'),
  /** Ends a job of its own accord after this long: TERM, then KILL; it counts as failed. */
  maxRuntimeMs: z.int().positive().optional(),
});
export type JobTemplate = z.output<typeof jobTemplateSchema>;
