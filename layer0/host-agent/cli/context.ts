/** What the commands of `flynn-host` are given. */
import { InvalidArgumentError } from 'commander';
import type { Command } from 'commander';
import type { HttpClient } from '@flynn/kit/http-client';
import type { Installation } from './installation.ts';

export type CliContext = {
  program: Command;
  installation: () => Promise<Installation>;
  /** With a client of the local agent's API. */
  withAgent: <T>(run: (client: HttpClient) => Promise<T>) => Promise<T>;
  print: (text: string) => void;
};

export function positiveInteger(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('expected a whole number');
  return Number(text);
}
