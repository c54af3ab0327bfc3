import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eitherCommand, installedCommands, repositoryCommands } from './operator-commands.ts';

test('who cannot know how a host was installed names the command of both ways, with the same flags', () => {
  assert.equal(eitherCommand('up'), 'flynn-host bootstrap (npm run up)');
  assert.equal(
    eitherCommand('rotateAuthority'),
    'flynn-host bootstrap --rotate-authority (npm run up -- --rotate-authority)',
  );
  const flagOf = (command: string) => / (--[a-z-]+)/.exec(command.replace(' -- ', ' '))?.[1];
  for (const [name, repository] of Object.entries(repositoryCommands)) {
    const installed = Object.entries(installedCommands).find(([other]) => other === name)?.[1] ?? '';
    // These two are commands of their own there.
    if (name === 'token' || name === 'join') assert.equal(flagOf(repository), `--${installed.split(' ')[1]}`);
    else assert.equal(flagOf(repository), flagOf(installed), name);
  }
});
