/** Who is announced where, and for whom? Every host tells what it uses every few seconds: that opens and closes nothing. */
import type { DiscoveryEvent } from '@flynn/discovery/api';
import { label } from '../engine/labels.ts';

export class Places {
  readonly #places = new Map<string, string>();

  /** Whether somebody came, went, or is at another place or of another group than before. */
  follow(events: readonly DiscoveryEvent[]): boolean {
    let hasMoved = false;
    for (const event of events) if (this.#isMove(event)) hasMoved = true;
    return hasMoved;
  }

  #isMove(event: DiscoveryEvent): boolean {
    switch (event.event) {
      case 'up':
      case 'update':
      case 'down': {
        const { service, id, address, attributes } = event.instance;
        const key = `${service}/${id}`;
        const place = event.event === 'down' ? undefined : `${address} ${attributes[label.group] ?? ''}`;
        const before = this.#places.get(key);
        if (place === undefined) this.#places.delete(key);
        else this.#places.set(key, place);
        return place === undefined || place !== before;
      }
      case 'leader':
      case 'meta':
        return false;
      case 'lagged':
      case 'current':
        return true;
      default:
        return event satisfies never;
    }
  }
}
