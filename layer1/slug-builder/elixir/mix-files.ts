/** What does an app's mix.exs say of how it is built and started? It is a program, and is read as a text. Pure. */

export type MixProject = Readonly<{
  isPhoenix: boolean;
  /** Whether it says itself how its assets are made. */
  hasAssets: boolean;
  /** Whether it says how a release is made of it. */
  hasReleases: boolean;
}>;

export function readMix(mixExs: string): MixProject {
  const text = mixExs.replace(/("(?:\\.|[^"\\\n])*")|#.*/g, (_all, string: string | undefined) => string ?? '');
  return {
    isPhoenix: /\{\s*:phoenix\s*,/.test(text),
    hasAssets: /"assets\.deploy"\s*(?::|=>)/.test(text),
    hasReleases: /(?<![\w:])releases:\s*(?:\[|releases\b)/.test(text),
  };
}

/** `release`: from the app's top, where one was made. */
export function startOfMix(
  project: MixProject,
  release: { path: string; name: string; hasServer: boolean } | undefined,
): string {
  if (release !== undefined) {
    const bin = `${release.path}/bin`;
    // Phoenix makes the first itself, and listens in a release only where it is told to.
    return release.hasServer ? `${bin}/server` : `PHX_SERVER=true ${bin}/${release.name} start`;
  }
  // It is compiled, and nothing of it can have changed since.
  return `mix ${project.isPhoenix ? 'phx.server' : 'run --no-halt'} --no-compile --no-deps-check`;
}
