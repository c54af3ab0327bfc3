/**
 * Messages that two readers could split or take differently: what was published on request smuggling, and what the grammar of
 * RFC 9112 rules out besides. For each, what the router must do: as the strictest of nginx, HAProxy and llhttp.
 */
import { bodies } from './corpus-bodies.ts';
import { framings } from './corpus-framing.ts';
import { heads } from './corpus-heads.ts';

/** What reaches a backend, in order. */
export type Through = { method: string; target: string; body: string };

export type Case = {
  name: string;
  /** Latin1. */
  bytes: string;
  /**
   * `refused`: an error, or an end, and no request whole at a backend. `passed`: exactly these requests. `either`: refused, or
   * exactly these requests.
   */
  must: 'refused' | { passed: readonly Through[] } | { either: readonly Through[] };
};

export const corpus: readonly Case[] = [...heads, ...framings, ...bodies];
