/** What people type on a host to change it, where flynn was installed there from a bundle and where it is its repository. */
export const installedCommands = {
  up: 'flynn-host bootstrap',
  token: 'flynn-host token',
  join: 'flynn-host join TOKEN',
  restore: 'flynn-host bootstrap --from-backup',
  rotateTokens: 'flynn-host bootstrap --rotate-tokens',
  rotateRootKey: 'flynn-host bootstrap --rotate-root-key',
  rotateSealingKey: 'flynn-host bootstrap --rotate-sealing-key',
  rotateAuthority: 'flynn-host bootstrap --rotate-authority',
  domain: 'flynn-host bootstrap --domain',
  dropDomain: 'flynn-host bootstrap --drop-domain',
  takeOver: 'flynn-host bootstrap --take-over',
  down: 'flynn-host uninstall',
  force: 'flynn-host uninstall --force',
} as const;

type CommandName = keyof typeof installedCommands;

export const repositoryCommands: Readonly<Record<CommandName, string>> = {
  up: 'npm run up',
  token: 'npm run up -- --token',
  join: 'npm run up -- --join TOKEN',
  restore: 'npm run up -- --from-backup',
  rotateTokens: 'npm run up -- --rotate-tokens',
  rotateRootKey: 'npm run up -- --rotate-root-key',
  rotateSealingKey: 'npm run up -- --rotate-sealing-key',
  rotateAuthority: 'npm run up -- --rotate-authority',
  domain: 'npm run up -- --domain',
  dropDomain: 'npm run up -- --drop-domain',
  takeOver: 'npm run up -- --take-over',
  down: 'npm run down',
  force: 'npm run down -- --force',
};

/** For who cannot know which of both it is: parts in containers, and whoever speaks of another machine. */
export function eitherCommand(name: CommandName): string {
  return `${installedCommands[name]} (${repositoryCommands[name]})`;
}
