/** `flynn help COMMAND …`, down to any depth. */
import { type Parent, refuseUnknown } from './command.ts';

export function addHelpCommand({ program }: Parent): void {
  program.helpCommand(false);
  program
    .command('help')
    .description('what a command takes')
    .argument('[command...]', 'as in: flynn help route cert add')
    .action((names: readonly string[]) => {
      let command = program;
      for (const name of names) {
        const found = command.commands.find((one) => one.name() === name || one.aliases().includes(name));
        if (found === undefined) return refuseUnknown(command, name);
        command = found;
      }
      return command.outputHelp();
    });
}
