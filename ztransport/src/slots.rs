//! A fixed number of places with names that do not come back.

use crate::token::SocketId;

/// Values by slot and generation. Its size never changes.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    places: Box<[Place<T>]>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Place<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Slots<T> {
    /// Empty, for at most `slots_max` values.
    pub(crate) fn new(slots_max: u32) -> Self {
        Self {
            places: (0..slots_max).map(|_| Place { generation: 0, value: None }).collect(),
            free: (0..slots_max).rev().collect(),
        }
    }

    /// Takes a value in, or gives it back when all places are taken.
    pub(crate) fn insert(&mut self, value: T) -> Result<SocketId, T> {
        let Some(index) = self.free.pop() else { return Err(value) };
        let Some(place) = self.places.get_mut(index as usize) else { return Err(value) };
        place.value = Some(value);
        Ok(SocketId::new(index, place.generation))
    }

    /// The value of this name, unless it is gone.
    pub(crate) fn get(&mut self, id: SocketId) -> Option<&mut T> {
        let place = self.places.get_mut(id.slot() as usize)?;
        place.value.as_mut().filter(|_| place.generation == id.generation())
    }

    /// Takes a value out. Its name is dead from here on.
    pub(crate) fn remove(&mut self, id: SocketId) -> Option<T> {
        self.get(id)?;
        let place = self.places.get_mut(id.slot() as usize)?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(id.slot());
        place.value.take()
    }

    /// Every value with its name, by place.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SocketId, &T)> {
        self.places.iter().zip(0..).filter_map(|(place, index)| {
            let value = place.value.as_ref()?;
            Some((SocketId::new(index, place.generation), value))
        })
    }

    /// How many values it can hold.
    pub(crate) fn slots_max(&self) -> u32 {
        u32::try_from(self.places.len()).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::Slots;

    #[test]
    fn a_slot_is_reused_under_another_name() {
        let mut slots = Slots::new(1);
        let first = slots.insert('a').unwrap();
        assert_eq!(slots.insert('b'), Err('b'), "full");
        assert_eq!(slots.remove(first), Some('a'), "taken out");
        let second = slots.insert('c').unwrap();
        assert_eq!(first.slot(), second.slot(), "the same place");
        assert_eq!(slots.get(first), None, "the old name is dead");
        assert_eq!(slots.remove(first), None, "and stays dead");
        assert_eq!(slots.get(second), Some(&mut 'c'), "the new one lives");
        assert!(slots.iter().eq([(second, &'c')]), "and it is the only one");
    }
}
