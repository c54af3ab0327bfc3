/**
 * The buildpack contract. Built-in buildpacks are modules of this shape; custom ones are programs behind an adapter of the
 * same shape. All of them run in a process that holds no secrets of the cluster, as the user that the app runs as.
 */
import type { Output } from './output.ts';

/** Where things are. In the builder's container: /app, /opt/flynn …; in tests folders below one of their own. */
export type Layout = Readonly<{
  /** The source, and in the end the slug. /app when it runs. */
  appDir: string;
  /** Survives until the app's next build. */
  cacheDir: string;
  /** One file per variable of the app. */
  envDir: string;
  /** What tools are installed into: /opt/flynn when it runs. */
  runtimeDir: string;
  /** Gone after the build. */
  scratchDir: string;
}>;

export type BuildContext = {
  layout: Layout;
  /** The app's variables. */
  appEnv: Readonly<Record<string, string>>;
  /** For every program of the build: PATH, HOME, STACK, how this machine reaches registries. Grows with `exports`. */
  baseEnv: Readonly<Record<string, string>>;
  out: Output;
  nowMs: number;
  signal: AbortSignal;
  /** Whether a buildpack before this one has compiled the app. */
  isBuilt: boolean;
  /** Says that what is new in the cache is good: it is stored even if this buildpack fails later. */
  keepCache: () => void;
};

/** What a build is given from outside. */
export type GivenContext = Omit<BuildContext, 'isBuilt' | 'keepCache'>;

/** A tool in `<runtimeDir>/<name>`: a layer of its own, so apps that use the same version share it. */
export type Runtime = { name: string; dir: string };

export type Compiled = {
  /** Defaults: the Procfile has the last word. */
  processTypes: Record<string, string>;
  /** Variables' defaults at run time: the app's own values win. */
  configVars: Record<string, string>;
  runtimes: Runtime[];
  /** For the buildpacks after this one. */
  exports: Record<string, string>;
  /** Whether the cache is worth storing again. */
  isCacheChanged: boolean;
};

export type Buildpack = {
  /** As people name it in `.buildpacks`: "nodejs". */
  name: string;
  /** All it fills of the cache, at its top; undefined where nobody knows. What no buildpack of a build fills goes. */
  cacheFolders?: readonly string[];
  /** What kind of app this is ("Node.js"), or undefined if it is none of this buildpack's. */
  detect(context: BuildContext): Promise<string | undefined>;
  /** `invalid` for whatever the pusher can put right. */
  compile(context: BuildContext): Promise<Compiled>;
};

export const nothingCompiled: Compiled = {
  processTypes: {},
  configVars: {},
  runtimes: [],
  exports: {},
  isCacheChanged: false,
};
