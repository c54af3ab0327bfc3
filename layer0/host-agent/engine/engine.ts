/**
 * The Engine port: what the host agent needs of a container engine, and the contract every driver keeps.
 *
 * Ownership. An engine is opened for one cluster and sees only what carries that cluster's label; everything it makes
 * carries it.
 *
 * Idempotency. `ensure…` may be called any number of times, also concurrently: the work is done once. `start` of a
 * running container, `stop` of an ended one and `remove` of one that is gone succeed.
 *
 * Errors. FlynnError: `not_found` (no such container, image, base), `conflict` (the name is taken), `invalid` (the spec
 * can never work), `unavailable` (the engine does not answer: nothing is known about the containers), `timeout`,
 * `cancelled`. After `unavailable` and `timeout` a call may or may not have taken effect.
 *
 * Events. `events` tells that something happened to a container, not what is true now: look it up. An iteration that
 * ends or throws has lost touch; list again after iterating anew. Events may come twice.
 *
 * Logs. Records of one stream come in the order written; their times decrease only where the clock was set back. A record that
 * does not end its line (`isPartial`) has the time of the line's first record.
 */
import type { Image } from '@flynn/scheduler/job-template';
import type { Readable } from 'node:stream';

export type CallOptions = { signal?: AbortSignal };

/** `group`: whose image it is. Without, it is the host's own, and waits for nobody's. */
export type ImageOptions = CallOptions & { group?: string | undefined };

export type Labels = Readonly<Record<string, string>>;

export type ContainerSpec = Readonly<{
  name: string;
  labels: Labels;
  /** What `ensureImage` answered. */
  imageRef: string;
  hostname: string;
  entrypoint?: readonly string[];
  command?: readonly string[];
  env: Readonly<Record<string, string>>;
  user?: string;
  workingDirectory?: string;
  network: { type: 'host' } | { type: 'bridge'; name: string; dns: readonly string[] };
  /** Ports of the host that lead to ports of the container; none in the host's network. */
  published?: readonly { hostPort: number; port: number; protocol: 'tcp' | 'udp' }[];
  /** One that is not there is made, with these labels beside the cluster's. */
  volumes: readonly { name: string; path: string; isReadOnly?: boolean; labels?: Labels }[];
  /** Directories and files of the host, for the cluster's own jobs. */
  binds?: readonly { source: string; path: string; isReadOnly: boolean }[];
  /**
   * Files of the host that may stand in for the image's own where its label has this value: they are the same to the byte, and
   * of a file that is the same one there is one copy in memory. An engine may leave it.
   */
  standIns?: readonly { label: string; value: string; source: string; path: string }[];
  tty: boolean;
  /** The process has a stdin, which ends with the first attached client that ends it. */
  stdin: boolean;
  limits: { memoryBytes?: number; cpuMillis?: number; pids?: number; files?: number; shmBytes?: number };
  /**
   * Without: what changing users, owners and modes of one's own files and listening below 1024 take, and no new privileges.
   * No raw sockets (they forge addresses), no device files, no file capabilities.
   */
  isPrivileged?: boolean;
}>;

export type Container = Readonly<{
  id: string;
  name: string;
  labels: Labels;
  state: 'created' | 'running' | 'exited';
  /** On the bridge network, while running. */
  address?: string;
  /** Of its first process, as the host counts them, while running; an engine that has none of its own tells none. */
  pid?: number;
  imageId: string;
  tty: boolean;
  /** By name; those that its image asks for too, which go with it. */
  volumes: readonly string[];
  /** Directories and files of the host that it has mounted; an engine without any tells none. */
  binds?: readonly string[];
  createdAtMs: number;
  startedAtMs?: number;
  endedAtMs?: number;
  /** Only of `exited`. */
  exitCode?: number;
  /** The kernel killed something of it for want of memory. */
  isOutOfMemory: boolean;
  /** Why the engine could not run it, or tell of it. */
  error?: string;
  /** The engine could not tell of it: what it is now is known, but not since when, and not how it ended. */
  isUnclear?: boolean;
}>;

export type EngineEvent = Readonly<{ type: 'started' | 'ended' | 'out_of_memory' | 'removed'; containerId: string }>;

export type LogRecord = Readonly<{
  stream: 'stdout' | 'stderr';
  /** Nanoseconds since the epoch. */
  timestampNs: bigint;
  /** Without the line's end. */
  message: string;
  isPartial: boolean;
}>;

export type LogOptions = {
  /** Goes on until the container ends. A container that was never started has no log to follow. */
  follow: boolean;
  /** Records of this time and later. */
  sinceNs?: bigint;
  /** Only the newest records of what there is. */
  tail?: number;
  signal?: AbortSignal;
};

export type OutputChunk = Readonly<{ stream: 'stdout' | 'stderr'; data: Buffer }>;

/** A connection to a container's streams. Closing it leaves the container alone, but see `ContainerSpec.stdin`. */
export interface Attachment extends Disposable {
  /** Ends once the container ended and its output is through. Reading slowly slows the process down. */
  readonly output: AsyncIterable<OutputChunk>;
  write(data: Uint8Array): Promise<void>;
  endInput(): void;
  close(): void;
}

/** A process beside the container's own: in its file system, network and limits, as its user, with its environment. */
export interface ExtraProcess extends Attachment {
  /** Once it ended and its output is through. A program that could not be started says why on its output: 126 or 127. */
  exitCode(): Promise<number>;
  resize(size: { columns: number; rows: number }): Promise<void>;
  /** One that ended takes none. */
  signal(signal: string): Promise<void>;
}

export type ImageInfo = Readonly<{
  id: string;
  /** Its tags; without any the names that it was pulled by digest under. */
  refs: readonly string[];
  labels: Labels;
  createdAtMs: number;
  sizeBytes: number;
}>;

export type VolumeInfo = Readonly<{ name: string; labels: Labels; createdAtMs: number }>;

/** Since the container's start, except for what is now: memory (without what is only cached from files) and processes. */
export type Usage = Readonly<{
  memoryBytes: number;
  cpuNanoseconds: number;
  pids: number;
  /** Absent in the host's network. */
  network?: { receivedBytes: number; sentBytes: number };
}>;

/**
 * What the container wrote that goes with it, in volumes without a name too, and what is in its volumes. `writableFiles`: how
 * many files and folders the first is, as far as they can be seen.
 */
export type DiskUse = Readonly<{ writableBytes: number; writableFiles: number; volumeBytes: number }>;

/** `platform`: as FROM says it. Default: the host's own. */
export type BaseImage = Readonly<{ name: string; platform?: string | undefined }>;

export type ImageBuild = Readonly<{
  /** Of this one build. */
  id: string;
  /** Builds with the same one find the steps of the one before done, as far as they are the same. */
  cache: string;
  /** A tar archive, which is read once. */
  context: Readable;
  /** In the context. */
  dockerfile: string;
  /** What its stages begin with that has to be in a registry, or here: none may bring steps of its own. */
  bases: readonly BaseImage[];
  args: Readonly<Record<string, string>>;
  /** Of each step, and there is one at a time. */
  limits: { memoryBytes: number; cpuMillis: number; pids: number; diskBytes: number };
  /** What the build says, line by line. */
  onText: (line: string) => Promise<void> | void;
}>;

export type FetchBlob = (digest: string, options: CallOptions) => Promise<Readable>;

export type EngineInfo = { memoryBytes: number; cores: number; version: string; rootDir?: string };

export interface Engine {
  /** `unavailable` when it is not there; one that hangs is told of. `rootDir`: where it keeps images, containers and volumes. */
  info(options?: CallOptions): Promise<EngineInfo>;
  /**
   * Resolves once the engine has had the locks that starts, stops and removals want: one in which they are stuck for good still
   * lists containers. No answer within `deadlineMs`: `timeout`.
   */
  checkLocks(options: CallOptions & { deadlineMs: number }): Promise<void>;

  /**
   * A bridge of exactly this subnet, with the gateway as the host's address on it. One with another subnet: `conflict`. `mtu`
   * counts when it is made.
   */
  ensureNetwork(
    network: { name: string; bridge: string; subnet: string; gateway: string; mtu?: number; labels?: Labels },
    options?: CallOptions,
  ): Promise<void>;
  removeNetwork(name: string, options?: CallOptions): Promise<void>;

  /**
   * The reference to create containers from. By name: an image that is there, or pulled; what the engine was given, or has
   * built, for some app is no image by its name or id: `invalid`. Base and layers: built once per host, layers fetched by digest
   * and verified; equal lower layers are stored once. By configuration and layers: the same, without what the image's labels say
   * of the platform's matters. Layers that take more room than they may are `exhausted`. What is there waits for nothing that
   * has to come; what comes is given up when nobody waits for it any more. Of one group one image by name, and one of layers, come
   * at a time.
   */
  ensureImage(image: Image, options?: ImageOptions): Promise<string>;
  /** What its ENV says. By what `ensureImage` answered; one that is not there: `not_found`, and `ensureImage` looks anew. */
  imageEnv(ref: string, options?: CallOptions): Promise<Record<string, string>>;
  /**
   * Builds an image and answers its name, which is its to keep until the next build with the same cache. `invalid` with the
   * reason when the build fails, `exhausted` when it goes over a limit. When it fails or its signal aborts, nothing is left
   * of it. Of what is in the cluster its steps reach no more than a machine outside.
   */
  buildImage(build: ImageBuild, options?: CallOptions): Promise<string>;
  /** Removes what builds left that ended with the program that ran them. */
  removeBuildsLeft(options?: CallOptions): Promise<void>;
  /** Images by name as one archive for another engine, layers they share once. One that is not there: `not_found`. */
  exportImages(names: readonly string[], options?: CallOptions): Promise<Readable>;
  /** Brings what is missing of these from elsewhere, together where that is possible, before anybody needs them. */
  prefetchImages(names: readonly string[], options?: CallOptions): Promise<void>;
  /** Images with the cluster's label: the stacks. With `all` every image the engine has, whoever made it. */
  listImages(options?: CallOptions & { all?: boolean }): Promise<ImageInfo[]>;
  /** By id or reference; of an image with several references the one named goes. One in use stays: `conflict`. */
  removeImage(id: string, options?: CallOptions): Promise<void>;

  create(spec: ContainerSpec, options?: CallOptions): Promise<string>;
  /**
   * Answers the container as it is after the start; `conflict` for one that is to be removed. A volume of it with nothing in it
   * becomes its user's, unless the image says whose.
   */
  start(id: string, options?: CallOptions): Promise<Container>;
  /** TERM, after `timeoutMs` KILL; resolves once it ended. */
  stop(id: string, options: CallOptions & { timeoutMs: number }): Promise<void>;
  /** A container that is not running: `conflict`. */
  signal(id: string, signal: string, options?: CallOptions): Promise<void>;
  /** Takes the container, its log and its anonymous volumes away; kills it if need be. */
  remove(id: string, options?: CallOptions): Promise<void>;
  /** By id or name. */
  inspect(id: string, options?: CallOptions): Promise<Container>;
  /** Ids and states only: cheap, for finding out whether there is anything to look at. */
  states(options?: CallOptions): Promise<ReadonlyMap<string, Container['state']>>;
  /** One that the engine cannot tell of keeps nobody from the others: it `isUnclear`. */
  list(options?: CallOptions): Promise<Container[]>;
  events(options: { signal: AbortSignal }): AsyncIterable<EngineEvent>;

  logs(id: string, options: LogOptions): AsyncIterable<LogRecord>;
  /** With `logs`, the output so far comes first. Attach before the start to miss nothing. */
  attach(id: string, options: { stdin: boolean; logs: boolean; signal?: AbortSignal }): Promise<Attachment>;
  /** Closing it leaves the process alone: signal it. A container that is not running: `conflict`. */
  exec(
    id: string,
    options: {
      command: readonly string[];
      env?: Readonly<Record<string, string>>;
      tty: boolean;
      stdin: boolean;
      signal?: AbortSignal;
    },
  ): Promise<ExtraProcess>;
  resize(id: string, size: { columns: number; rows: number }, options?: CallOptions): Promise<void>;
  /** Cheap. One that does not run uses nothing. */
  usage(id: string, options?: CallOptions): Promise<Usage>;
  /** Dear: it looks at every file. */
  diskUse(id: string, options?: CallOptions): Promise<DiskUse>;

  /** One that is there keeps the labels it was made with. */
  ensureVolume(name: string, options?: CallOptions & { labels?: Labels }): Promise<void>;
  /** Of the cluster. */
  listVolumes(options?: CallOptions): Promise<VolumeInfo[]>;
  /** Also of one that somebody made by hand. */
  hasVolume(name: string, options?: CallOptions): Promise<boolean>;
  /** Dear: it looks at every file. Undefined where the volume is not to be seen from here; one that is not there: `not_found`. */
  volumeBytes(name: string, options?: CallOptions): Promise<number | undefined>;
  /** One in use: `conflict`. One that is not there is fine. */
  removeVolume(name: string, options?: CallOptions): Promise<void>;
}
