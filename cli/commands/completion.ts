import { usageError } from '../arguments.ts';
import { fish } from '../completion/fish.ts';
import { bash, zsh } from '../completion/posix.ts';
import { placesOf, shells } from '../completion/words.ts';
import { addCommand, type Parent } from './command.ts';

export function addCompletionCommand(parent: Parent): void {
  addCommand(parent, {
    name: 'completion',
    summary: 'completion for a shell: eval "$(flynn completion bash)"',
    arguments: [['<shell>', shells.join(', ')]],
    async run(context, _options, [shell = '']) {
      const places = placesOf(parent.program);
      switch (shell) {
        case 'bash':
          return context.print(bash(places));
        case 'zsh':
          return context.print(zsh(places));
        case 'fish':
          return context.print(fish(places));
        default:
          throw usageError(`no completion for "${shell}": there is ${shells.join(', ')}`);
      }
    },
  });
}
