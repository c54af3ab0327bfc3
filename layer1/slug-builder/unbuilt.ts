/** What in a repository is for a tool that no buildpack here runs, and what can be done? Pure. */
/** In the order in which they say what an app is. */
const tools: readonly [file: RegExp, tool: string][] = [
  [/^build\.sbt$/, 'sbt'],
  [/^project\.clj$/, 'Leiningen'],
  [/\.(?:csproj|fsproj|vbproj|sln|slnx)$/, '.NET'],
  [/^Package\.swift$/, 'Swift'],
  [/^pubspec\.yaml$/, 'Dart'],
];
const otherBuilds =
  "Name a buildpack that builds it (flynn env set BUILDPACK_URL=https://…), or commit a Dockerfile. A Procfile only says what is started: where all that it starts is in the repository already, say so with: printf 'procfile\\n' > .buildpacks && git add .buildpacks";

/** Of names at the top of a repository that no language's buildpack knows. Undefined where nothing of it has to be built. */
export function unbuiltIn(names: readonly string[]): string | undefined {
  if (names.includes('Pipfile'))
    return 'There is a Pipfile, and no Pipfile.lock to say which versions are installed: run "pipenv lock", and commit what it writes.';
  for (const [file, tool] of tools) {
    const found = names.find((name) => file.test(name));
    if (found !== undefined) return `There is ${found}, and no buildpack here builds ${tool}. ${otherBuilds}`;
  }
  return undefined;
}
