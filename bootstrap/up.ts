/** `npm run up`: this machine as a cluster, with a sample app on it. Run again: brings the platform up to date. */
import { parseArgs, styleText } from 'node:util';
import { messageOf } from '@flynn/kit/errors';
import { changeOf } from './domain/domain.ts';
import { bringUp, goOnText } from './bring-up/bring-up.ts';
import { bringUpHosts } from './bring-up/hosts.ts';
import { printToken } from './joining/token.ts';
import { pathOfRoot } from './machine/program.ts';
import { rotationOf } from './rotation/flags.ts';

async function main(): Promise<boolean> {
  const { values } = parseArgs({
    options: {
      join: { type: 'string' },
      'behind-nat': { type: 'string' },
      token: { type: 'boolean', default: false },
      hosts: { type: 'string' },
      'from-backup': { type: 'string' },
      'passphrase-file': { type: 'string' },
      'rotate-tokens': { type: 'boolean' },
      'rotate-root-key': { type: 'boolean' },
      'rotate-sealing-key': { type: 'boolean' },
      'rotate-authority': { type: 'boolean' },
      domain: { type: 'string' },
      'drop-domain': { type: 'string' },
      'take-over': { type: 'boolean', default: false },
    },
  });
  const rotation = rotationOf(values, {
    join: values.join !== undefined,
    token: values.token,
    hosts: values.hosts !== undefined,
    domain: values.domain !== undefined,
    'drop-domain': values['drop-domain'] !== undefined,
    'take-over': values['take-over'],
    'from-backup': values['from-backup'] !== undefined,
  });
  const { env } = process;
  if (values.hosts !== undefined) return await bringUpHosts(env, values.hosts);
  if (values.token) {
    await printToken(env);
    return true;
  }
  const { join: token, 'behind-nat': site, 'from-backup': fromBackup, 'passphrase-file': passphraseFile } = values;
  const domain = changeOf({ domain: values.domain, dropDomain: values['drop-domain'] });
  const takesOver = values['take-over'];
  return await bringUp({ env, token, site, fromBackup, passphraseFile, rotation, domain, takesOver });
}

process.env['PATH'] = pathOfRoot(process.env['PATH']);
try {
  if (!(await main())) process.exitCode = 1;
} catch (error) {
  process.stderr.write(`\n${styleText('red', '✖')} ${messageOf(error)}\n\n${goOnText}\n`);
  process.exitCode = 1;
}
// What was given up on may still be waiting for its answer: a member of the store that has lost the others never gives one.
process.exit();
