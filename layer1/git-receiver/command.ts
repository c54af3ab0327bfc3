/** What does a client want that runs a command over SSH? */

/** `git lfs` asks where it may send what it keeps apart, before git pushes: what is said here is all that people see of it. */
const noObjects = [
  'flynn keeps no objects of Git LFS. Push without them: GIT_LFS_SKIP_PUSH=1 git push …',
  'A build has the pointers in the place of such files, and names them. What the app needs of them is committed itself',
  '(git lfs untrack PATTERN && git add --renormalize . && git commit), or fetched in the build from where it is kept',
].join('\n');

export type GitCommand = { service: 'receive-pack' | 'upload-pack'; app: string };

/** `git-receive-pack '/NAME.git'` as git sends it. Anything else comes back as a sentence for the person. */
export function parseCommand(command: string): GitCommand | { problem: string } {
  if (/^git[ -]lfs-(?:authenticate|transfer)\b/.test(command.trim())) return { problem: noObjects };
  const [, verb, rest] = /^(?:git[ -])([a-z-]+)(?: +(.*))?$/s.exec(command.trim()) ?? [];
  if (verb !== 'receive-pack' && verb !== 'upload-pack') {
    const shown = JSON.stringify(command.slice(0, 60));
    return {
      problem: `only git push, fetch and clone work here, not ${shown}. To run a command in an app: flynn run COMMAND`,
    };
  }
  const path = /^'([^']*)'$/.exec(rest ?? '')?.[1] ?? rest ?? '';
  const app = /^\/?([a-z][a-z0-9-]{0,29})(?:\.git)?\/?$/.exec(path)?.[1];
  if (app === undefined) {
    return {
      problem: `"${path.slice(0, 60)}" is not the address of an app: it ends in /NAME.git, as "flynn create" sets it up`,
    };
  }
  return { service: verb, app };
}
