/** Addresses and networks (`192.0.2.0/24`, `2001:db8::1`): who is in them? */
import { BlockList, isIP } from 'node:net';

/** Of what was asked lately, so that a client costs one search and not one a request. */
const maxRemembered = 4_096;

export class Networks {
  readonly #list = new BlockList();
  readonly #remembered = new Map<string, boolean>();
  readonly isEmpty: boolean;
  /** What could not be read as an address or a network. */
  readonly unreadable: readonly string[];

  constructor(texts: readonly string[]) {
    this.unreadable = texts.filter((text) => !this.#add(text.trim()));
    this.isEmpty = this.unreadable.length === texts.length;
  }

  has(address: string): boolean {
    if (this.isEmpty) return false;
    let isIn = this.#remembered.get(address);
    if (isIn === undefined) {
      isIn = isIP(address) !== 0 && this.#list.check(address, familyOf(address));
      if (this.#remembered.size >= maxRemembered) this.#remembered.clear();
      this.#remembered.set(address, isIn);
    }
    return isIn;
  }

  #add(text: string): boolean {
    const [address = '', prefix, ...more] = text.split('/');
    const version = isIP(address);
    if (version === 0 || more.length > 0 || address.includes('%')) return false;
    if (prefix === undefined) this.#list.addAddress(address, familyOf(address));
    else if (/^\d{1,3}$/.test(prefix) && Number(prefix) <= (version === 4 ? 32 : 128)) {
      this.#list.addSubnet(address, Number(prefix), familyOf(address));
    } else return false;
    return true;
  }
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return address.includes(':') ? 'ipv6' : 'ipv4';
}
